// Package api serves Seedbed's REST API: JSON under /api/v1. It listens on a TCP address, where
// callers need a token, and on the control socket, where the socket's file mode decides who may
// connect. It puts the native routes (package rest) and PVC's (package pvc) on both; package server
// has what they stand on. Handlers are thin: they check the form of a request, call one interface,
// and answer its result. openapi.yaml describes every route.
package api

import (
	"context"
	_ "embed"
	"errors"
	"net"

	"seedbed/api/pvc"
	"seedbed/api/rest"
	"seedbed/api/server"
)

// Description is openapi.yaml, which describes every route.
//
//go:embed openapi.yaml
var Description string

// Config holds what a Server works with.
type Config = server.Config

// SignIn is how people sign in.
type SignIn = server.SignIn

// Receiving holds the functions of the webhook receiver that the API needs.
type Receiving = server.Receiving

// Server is the REST API.
type Server struct{ *server.Server }

// New returns a Server that does not serve yet.
func New(c Config) *Server {
	c.Description = Description
	return &Server{server.New(c)}
}

// tables returns all routes on one listener.
func tables(r *server.Router) []server.Table { return []server.Table{rest.Table(r), pvc.Table(r)} }

// Serve answers on ln until ctx ends, and then closes ln. Requests need a token, except those for
// the health, the login and the API's root. Serve refuses to run with an empty token.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if len(s.Token) == 0 {
		ln.Close()
		return errors.New("serve the API: the token is empty")
	}
	return s.Server.Serve(ctx, ln, true, tables)
}

// ServeSocket is like Serve without authentication: anyone who can open the socket has full access.
func (s *Server) ServeSocket(ctx context.Context, ln net.Listener) error {
	return s.Server.Serve(ctx, ln, false, tables)
}
