// Package wire declares the requests and the answers of Seedbed's native API once, for the server
// (packages rest and server), the client and the command line.
//
// An object that is sent unchanged is a type of package seedbed, such as seedbed.Profile or
// seedbed.Job. This package has the types that only the API has. A member of a request that may be
// left out has omitempty or omitzero. A member of an answer without them is always present.
// openapi.yaml describes the same types, and a test compares the two.
package wire
