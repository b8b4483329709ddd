package libvirt

import (
	"encoding/xml"
	"fmt"

	"seedbed"
)

// Namespace is the XML namespace of the element in a domain's metadata that marks the domain as
// Seedbed's.
const Namespace = "urn:seedbed:domain"

// tagPrefix is the prefix of the element in the documents that we write.
const tagPrefix = "seedbed"

// tagVersion is the version of the tag that this program writes. A newer version may only add to
// it.
const tagVersion = 1

// Tag is the tag in a domain's metadata:
//
//	<seedbed:instance xmlns:seedbed="urn:seedbed:domain" version="1" id="ec2…" job="…" profile="…" project="…"/>
//
// # Releases without projects wrote no project, and ignore one when they read a tag
//
// The system template's settings for migration are in it for the tool that migrates the domain:
// migration="live" and max-downtime, in milliseconds.
type Tag struct {
	Version     int
	Instance    seedbed.InstanceID
	Job         seedbed.JobID
	Profile     string
	Project     string // empty in a tag of a release without projects
	Migration   string
	MaxDowntime int64
}

// specTag returns the tag of the domain that spec describes.
func specTag(spec seedbed.DomainSpec) Tag {
	t := Tag{Version: tagVersion, Instance: spec.ID, Job: spec.Job, Profile: spec.Profile, Project: spec.Project}
	if s := spec.System; s != nil {
		t.Migration, t.MaxDowntime = s.MigrationMethod, s.MigrationMaxDowntime
	}
	return t
}

// tagElement writes the prefix itself, because encoding/xml would not.
type tagElement struct {
	XMLName  xml.Name           `xml:"seedbed:instance"`
	XMLNS    string             `xml:"xmlns:seedbed,attr"`
	Version  int                `xml:"version,attr"`
	Instance seedbed.InstanceID `xml:"id,attr"`
	Job      seedbed.JobID      `xml:"job,attr"`
	Profile  string             `xml:"profile,attr"`
	Project  string             `xml:"project,attr,omitempty"`
	tagMigration
}

type tagMigration struct {
	Migration   string `xml:"migration,attr,omitempty"`
	MaxDowntime int64  `xml:"max-downtime,attr,omitempty"`
}

func (t Tag) marshal() (string, error) {
	b, err := xml.Marshal(tagElement{
		XMLNS: Namespace, Version: t.Version, Instance: t.Instance, Job: t.Job, Profile: t.Profile, Project: t.Project,
		tagMigration: tagMigration{t.Migration, t.MaxDowntime},
	})
	if err != nil {
		return "", fmt.Errorf("write the domain's tag: %w", err)
	}
	return string(b), nil
}

// ParseTag reads the element as virDomainGetMetadata returns it, without its prefix's declaration
// (libvirt 9) or with it. The caller must compare Instance with the domain's UUID: a domain that
// was copied with virt-clone has the tag of its original and is not ours.
func ParseTag(doc string) (Tag, error) {
	var e struct {
		XMLName  xml.Name           `xml:"instance"`
		Version  int                `xml:"version,attr"`
		Instance seedbed.InstanceID `xml:"id,attr"`
		Job      seedbed.JobID      `xml:"job,attr"`
		Profile  string             `xml:"profile,attr"`
		Project  string             `xml:"project,attr"`
		tagMigration
	}
	if err := xml.Unmarshal([]byte(doc), &e); err != nil {
		return Tag{}, fmt.Errorf("read a domain's tag: %w", err)
	}
	if space := e.XMLName.Space; space != "" && space != tagPrefix && space != Namespace {
		return Tag{}, fmt.Errorf("read a domain's tag: namespace is %q, expected %q", space, Namespace)
	}
	return Tag{
		Version: e.Version, Instance: e.Instance, Job: e.Job, Profile: e.Profile, Project: e.Project, Migration: e.Migration,
		MaxDowntime: e.MaxDowntime,
	}, nil
}
