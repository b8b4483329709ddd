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

// strangers counts the connections of unknown callers by their source, so that one of them cannot
// take all the connections from guests whose records have not arrived yet.
type strangers struct {
	mu sync.Mutex
	of map[source]int
}

func (s *strangers) enter(from source, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[from] >= most {
		return fmt.Errorf("the caller is unknown and has %d connections already", most)
	}
	if s.of == nil {
		s.of = map[source]int{}
	}
	s.of[from]++
	return nil
}

func (s *strangers) leave(from source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[from]--; s.of[from] <= 0 {
		delete(s.of, from)
	}
}
