package pooltag

import "strings"

// No name has the character that stands for the slash of a qualified name in a file's name. RBD, udev and
// QEMU take it as it is.
const fileSlash = "+"

// FileName returns the name of the file or RBD image that keeps the object with a qualified name: "debian"
// for "debian", and "acme+debian" for "acme/debian".
func FileName(qualified string) string { return strings.Replace(qualified, "/", fileSlash, 1) }

// NameOf is the inverse of FileName.
func NameOf(file string) string { return strings.Replace(file, fileSlash, "/", 1) }
