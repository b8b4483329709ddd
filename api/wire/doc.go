// Package wire declares the requests and the answers of Seedbed's native API
// once, for the server (package rest), the client and the command line.
//
// A thing that travels as the domain has it is a type of package seedbed, such
// as seedbed.Profile or seedbed.Job; here is what only the API has. A member of
// a request that may be left out has omitempty or omitzero; every member of an
// answer without them is always there. openapi.yaml describes the same types,
// and a test compares the two.
package wire
