package api

// OpenStreams is how many event streams a server has open.
func OpenStreams(s *Server) int {
	s.streams.mu.Lock()
	defer s.streams.mu.Unlock()
	return s.streams.all
}
