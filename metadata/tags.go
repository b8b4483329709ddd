package metadata

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// tags is tags/instance: a leaf for each key. With the option off, as with no
// tags at all, tags is 404 and tags/instance empty (EC2 user guide, "Work with
// instance tags in instance metadata"; amazon-ec2-metadata-mock, issue 189).
//
// A key is one element and one line: what cannot be is left out.
func tags(r *record) []*node {
	var all []*node
	for _, k := range servedTags(r) {
		if k == "" || k == "." || k == ".." || strings.ContainsAny(k, "/\r\n") {
			continue
		}
		all = append(all, constant(k, r.guest.Tags[k]))
	}
	return all
}

// servedTags are the keys of the tags that the instance may see, sorted.
func servedTags(r *record) []string {
	if r.guest.Options.Tags == seedbed.MetadataDisabled {
		return nil
	}
	return slices.SortedFunc(maps.Keys(r.guest.Tags), cmp.Compare)
}
