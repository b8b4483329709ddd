package server

import "sync"

// shares bounds how many of something are open at a time: most in all, and each of one caller.
type shares struct {
	each, most int
	mu         sync.Mutex
	of         map[string]int
	all        int
}

// enter reports whether a caller may open another one. A caller that may must call leave later.
func (s *shares) enter(who string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.most || s.of[who] >= s.each {
		return false
	}
	if s.of == nil {
		s.of = map[string]int{}
	}
	s.all++
	s.of[who]++
	return true
}

func (s *shares) leave(who string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.of[who]--; s.of[who] == 0 {
		delete(s.of, who)
	}
}
