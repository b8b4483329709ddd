package config

import (
	"regexp"

	"seedbed"
)

var (
	// placeForm matches a region or zone: a word of a host name.
	placeForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$`)
	// amazonForm matches what cloud-init takes for a region or zone of Amazon's
	// (cloudinit/distros/__init__.py, _get_package_mirror_info).
	amazonForm = regexp.MustCompile(`^[a-z][a-z]-([a-z]+-)+[0-9]+[a-z]?$`)
	domainForm = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)?$`)
)

// served checks the values in the records of guests.
func (k *checker) served(m Metadata) {
	for _, f := range []struct{ key, value, example string }{
		{"metadata.region", m.Region, "rack2"}, {"metadata.zone", m.Zone, "rack2-a"},
	} {
		k.need(placeForm.MatchString(f.value), f.key, f.value, "1 to 64 small letters, digits and hyphens, such as "+f.example)
		k.need(!amazonForm.MatchString(f.value), f.key, f.value,
			"a name that is not of Amazon's form, such as "+f.example+": guests would take their packages from mirrors in Amazon's networks")
	}
	k.need(domainForm.MatchString(m.Domain), "metadata.domain", m.Domain, "a domain name, such as example.org")
	k.need(domainForm.MatchString(m.Partition), "metadata.partition", m.Partition, "a word, such as seedbed")
	if m.VendorData != "" {
		k.path("metadata.vendor_data", m.VendorData)
	}
	k.need(m.MaxUserData >= seedbed.KiB && m.MaxUserData <= seedbed.MaxDocument, "metadata.max_user_data", m.MaxUserData,
		"1KiB to "+seedbed.MaxDocument.String())
}

func (k *checker) identity(i Identity) {
	if i.Key != "" {
		k.path("identity.key", i.Key)
		k.need(i.Certificate != "", "identity.key", i.Key, "identity.certificate with it")
	}
	if i.Certificate != "" {
		k.path("identity.certificate", i.Certificate)
		k.need(i.Key != "", "identity.certificate", i.Certificate, "identity.key with it")
	}
}
