package metadata

import (
	"strings"
)

// dialect is the dialect that a path belongs to.
type dialect uint8

const (
	dialectOther dialect = iota
	dialectRoot          // the list at /
	dialectEC2
	dialectToken
	dialectOpenStack
	dialectNoCloud
	dialectReport
	dialects
)

var dialectNames = [dialects]string{"other", "root", "ec2", "token", "openstack", "nocloud", "report"}

// versionClass is the way in which a path names its version.
type versionClass uint8

const (
	versionNone versionClass = iota
	versionLatest
	versionFirst // 1.0
	versionDated
	versionClasses
)

var versionNames = [versionClasses]string{"none", "latest", "1.0", "dated"}

// place is a parsed path: its dialect, its version and the rest.
type place struct {
	dialect dialect
	version versionClass
	rest    string
}

// locate parses a path. It does not check whether anything exists there.
func locate(path string) place {
	if path == tokenPath {
		return place{dialectToken, versionLatest, ""}
	}
	first, rest := element(path)
	switch first {
	case "":
		return place{dialect: dialectRoot}
	case "nocloud":
		return place{dialectNoCloud, versionNone, rest}
	case "seedbed":
		if strings.HasPrefix(path, reportPrefix) {
			return place{dialect: dialectReport}
		}
	case "openstack":
		version, rest := element(rest)
		switch class := classOf(version); {
		case version == "":
			return place{dialect: dialectOpenStack}
		case class == versionLatest, class == versionDated:
			return place{dialectOpenStack, class, rest}
		}
	default:
		if class := classOf(first); class != versionNone {
			return place{dialectEC2, class, rest}
		}
	}
	return place{dialect: dialectOther}
}

// element returns the first non-empty element of a path, and what follows it.
func element(path string) (first, rest string) {
	for first == "" && path != "" {
		first, path, _ = strings.Cut(path, "/")
	}
	return first, path
}

// classOf returns the class of s: latest, 1.0 or any text of the form dddd-dd-dd.
func classOf(s string) versionClass {
	switch {
	case s == "latest":
		return versionLatest
	case s == "1.0":
		return versionFirst
	case isDated(s):
		return versionDated
	}
	return versionNone
}

func isDated(s string) bool {
	if len(s) != len("2009-04-04") {
		return false
	}
	for i := range len(s) {
		if i == 4 || i == 7 {
			if s[i] != '-' {
				return false
			}
		} else if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// get returns what r has at path, which starts at the root of the service.
func (r *record) get(path string) answer { return r.at(locate(path)) }

// at returns what r has at a place.
func (r *record) at(p place) answer {
	switch p.dialect {
	case dialectRoot:
		return answer{body: versionList, mediaType: typeText, ok: true}
	case dialectEC2:
		a := ec2Tree.answer(r, p.rest)
		a.crawl = a.crawl || a.node == userDataLeaf // some clients fetch it before the listing
		return a
	case dialectOpenStack:
		if p.version == versionNone {
			return answer{body: openstackVersions, mediaType: typeText, ok: true, crawl: true}
		}
		a := openstackTree.answer(r, p.rest)
		a.crawl = a.ok
		return a
	case dialectNoCloud:
		a := nocloudTree.answer(r, p.rest)
		a.crawl = a.ok
		return a
	}
	return answer{}
}
