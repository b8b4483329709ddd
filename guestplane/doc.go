// Package guestplane keeps one node's guests connected and served as the feed says. It applies each
// state of the feed to the node's network and to the metadata directory. It runs the metadata and
// DHCP servers of each managed bridge, and repairs what others change on the node.
package guestplane
