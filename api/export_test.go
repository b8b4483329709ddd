package api

// OpenStreams returns the number of open event streams of a server.
func OpenStreams(s *Server) int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return s.streams.all
}
