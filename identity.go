package seedbed

import (
	"encoding/json"
	"net/netip"
	"time"
)

// identityDocument has the fields of Amazon's document in their order. A field that Seedbed cannot
// fill is null.
type identityDocument struct {
	AccountID               *string  `json:"accountId"`
	Architecture            string   `json:"architecture"`
	AvailabilityZone        *string  `json:"availabilityZone"`
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
	Region                  *string  `json:"region"`
	Version                 string   `json:"version"`
}

// IdentityDocument returns the instance identity document of g (EC2 user guide, "Instance identity
// documents"): indented JSON without a final line break. seedbedd signs exactly these bytes and the
// guest plane serves them, so both call this method.
func (g Guest) IdentityDocument() []byte {
	orNull := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	d := identityDocument{
		AccountID:        orNull(g.Account),
		Architecture:     "x86_64",
		AvailabilityZone: orNull(g.Zone),
		ImageID:          orNull(g.Image),
		InstanceID:       g.ServedID(),
		InstanceType:     orNull(g.Profile),
		Region:           orNull(g.Region),
		Version:          "2017-09-30",
	}
	if len(g.NICs) > 0 && g.NICs[0].Addr != (netip.Addr{}) {
		d.PrivateIP = orNull(g.NICs[0].Addr.String())
	}
	if !g.Created.IsZero() {
		d.PendingTime = orNull(g.Created.UTC().Format(time.RFC3339))
	}
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		panic(err) // strings always encode
	}
	return b
}

// ServedID returns the instance-id in the form that MetadataOptions.InstanceID asks for.
func (g Guest) ServedID() string {
	if g.Options.InstanceID == InstanceIDUUID {
		return string(g.ID)
	}
	return g.ID.EC2()
}
