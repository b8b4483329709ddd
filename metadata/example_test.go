package metadata_test

import (
	"fmt"

	"seedbed"
	"seedbed/metadata"
)

func ExampleRender() {
	v := metadata.View{Guest: seedbed.Guest{Name: "web1", Node: "hv1", Profile: "web", Region: "seedbed", Zone: "seedbed-a"}}
	for _, path := range []string{"/latest/meta-data/placement/", "/latest/meta-data/placement/region", "/latest/meta-data/nothing"} {
		body, _, ok := metadata.Render(v, path)
		fmt.Printf("%v %q\n", ok, body)
	}
	// Output:
	// true "availability-zone\navailability-zone-id\nhost-id\nregion"
	// true "seedbed"
	// false ""
}
