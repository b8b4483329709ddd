package metadata

import (
	"fmt"
	"sync"

	"seedbed"
)

// source identifies an unknown caller by its bridge and its MAC.
type source struct {
	bridge string
	mac    seedbed.MAC
}

// sourceConns counts the connections of unknown callers by their source, so that one of them cannot
// take all the connections from guests whose records have not arrived yet.
type sourceConns struct {
	mu    sync.Mutex
	count map[source]int
}

func (s *sourceConns) enter(from source, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[from] >= most {
		return fmt.Errorf("the caller is unknown and has %d connections already", most)
	}
	if s.count == nil {
		s.count = map[source]int{}
	}
	s.count[from]++
	return nil
}

func (s *sourceConns) leave(from source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[from]--; s.count[from] <= 0 {
		delete(s.count, from)
	}
}
