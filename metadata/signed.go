package metadata

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
)

// signature returns dynamic/instance-identity/signature: the RSA signature (PKCS #1 v1.5, SHA-256)
// of the document's bytes, in base64. seedbedd makes it; this service does not have the key.
func signature(r *record) string { return base64.StdEncoding.EncodeToString(r.guest.Signature) }

// The PKCS #7 types (RFC 5652) that are needed for one signer without attributes. The signature is
// then that of the content itself.
type (
	contentInfo struct {
		Type    asn1.ObjectIdentifier
		Content any `asn1:"explicit,tag:0"`
	}
	signedData struct {
		Version          int
		DigestAlgorithms []pkix.AlgorithmIdentifier `asn1:"set"`
		Content          contentInfo
		Signers          []signerInfo `asn1:"set"`
	}
	signerInfo struct {
		Version            int
		Issuer             issuerAndSerial
		DigestAlgorithm    pkix.AlgorithmIdentifier
		SignatureAlgorithm pkix.AlgorithmIdentifier
		Signature          []byte
	}
	issuerAndSerial struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
)

var (
	oidData       = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	algSHA256     = pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}, Parameters: asn1.NullRawValue}
	algRSA        = pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}
)

// signedDocument returns dynamic/instance-identity/rsa2048 and pkcs7: the document with its
// signature as PKCS #7, in lines of base64 without a head, as Amazon serves them. Amazon's pkcs7
// has an obsolete signature of DSA and SHA-1; here both have the same content. It does not contain
// the certificate.
func signedDocument(r *record) ([]byte, bool) {
	if len(r.guest.Signature) == 0 || len(r.site.Certificate) == 0 {
		return nil, false
	}
	cert, err := x509.ParseCertificate(r.site.Certificate)
	if err != nil {
		return nil, false
	}
	der, err := asn1.Marshal(contentInfo{oidSignedData, signedData{
		Version:          1,
		DigestAlgorithms: []pkix.AlgorithmIdentifier{algSHA256},
		Content:          contentInfo{oidData, r.guest.IdentityDocument()},
		Signers: []signerInfo{{
			Version:         1,
			Issuer:          issuerAndSerial{asn1.RawValue{FullBytes: cert.RawIssuer}, cert.SerialNumber},
			DigestAlgorithm: algSHA256, SignatureAlgorithm: algRSA,
			Signature: r.guest.Signature,
		}},
	}})
	if err != nil {
		return nil, false
	}
	return base64Lines(der), true
}

// base64Lines returns b in base64, in lines of 64 characters. The last line has no line feed.
func base64Lines(b []byte) []byte {
	text := base64.StdEncoding.AppendEncode(nil, b)
	var out bytes.Buffer
	for len(text) > 64 {
		out.Write(text[:64])
		out.WriteByte('\n')
		text = text[64:]
	}
	out.Write(text)
	return out.Bytes()
}
