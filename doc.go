// Package seedbed holds the domain of Seedbed: instances and what they are made of, jobs and their
// legal transitions, the records that the guest plane serves, and the error kinds that every other
// package matches. It imports only the standard library, and every other package may import it.
package seedbed
