package webhook

import (
	"testing"

	"seedbed/webhook/signature"
)

// The vector of the Standard Webhooks specification.
const (
	vectorSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTimestamp = "1614265330"
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	vectorV1A       = "v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg=="
)

func vectorKey(t testing.TB) []byte {
	t.Helper()
	key, err := signature.ParseSecret(vectorSecret)
	if err != nil {
		t.Fatal(err)
	}
	return key
}
