package metadata

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"seedbed"
)

// tags returns the leaves of tags/instance, one for each key. With the option off, or without tags,
// tags is 404 and tags/instance is empty (EC2 user guide, "Work with instance tags in instance
// metadata"; amazon-ec2-metadata-mock, issue 189).
//
// A key must be one path element and one line; others are left out.
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

// servedTags returns the sorted keys of the tags that the instance may see.
func servedTags(r *record) []string {
	if r.guest.Options.Tags == seedbed.MetadataDisabled {
		return nil
	}
	return slices.SortedFunc(maps.Keys(r.guest.Tags), cmp.Compare)
}
