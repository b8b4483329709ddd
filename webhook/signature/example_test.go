package signature_test

import (
	"fmt"
	"time"

	"seedbed/webhook/signature"
)

// A sender signs the ID, the time and the raw body.
func ExampleSign() {
	key, err := signature.ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		fmt.Println(err)
		return
	}
	sent := time.Unix(1614265330, 0)
	fmt.Println(signature.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", sent, []byte(`{"test": 2432232314}`)))
	// Output: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=
}
