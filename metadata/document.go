package metadata

import (
	"encoding/json"
	"time"
)

// Amazon's names for places look like "eu-west-1a", and distributions choose
// their package mirror by that form, so ours have another.
const (
	region           = "seedbed"
	availabilityZone = "seedbed-local"
)

// document has the fields of an identity document in Amazon's order; null where there is no source.
type document struct {
	AccountID               *string  `json:"accountId"`
	Architecture            string   `json:"architecture"`
	AvailabilityZone        string   `json:"availabilityZone"`
	BillingProducts         []string `json:"billingProducts"`
	DevpayProductCodes      []string `json:"devpayProductCodes"`
	MarketplaceProductCodes []string `json:"marketplaceProductCodes"`
	ImageID                 *string  `json:"imageId"`
	InstanceID              string   `json:"instanceId"`
	InstanceType            *string  `json:"instanceType"`
	KernelID                *string  `json:"kernelId"`
	PendingTime             *string  `json:"pendingTime"`
	PrivateIP               *string  `json:"privateIp"`
	RamdiskID               *string  `json:"ramdiskId"`
	Region                  string   `json:"region"`
	Version                 string   `json:"version"`
}

// identityDocument is dynamic/instance-identity/document (EC2 user guide,
// "Instance identity documents"). It is not signed.
func identityDocument(r *record) ([]byte, bool) {
	d := document{
		Architecture:     "x86_64",
		AvailabilityZone: availabilityZone,
		ImageID:          orNull(r.guest.Image),
		InstanceID:       r.guest.ID.EC2(),
		InstanceType:     orNull(r.guest.Profile),
		PrivateIP:        orNull(addrText(primary(r).Addr)),
		Region:           region,
		Version:          "2017-09-30",
	}
	if t := r.guest.Created; !t.IsZero() {
		d.PendingTime = orNull(t.UTC().Format(time.RFC3339))
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, false
	}
	return b, true
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
