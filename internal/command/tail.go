package command

// tail keeps the last OutputLimit bytes that are written to it.
type tail struct {
	buf []byte
	cut bool
}

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*int(OutputLimit) {
		t.trim()
	}
	return len(p), nil
}

func (t *tail) trim() {
	if over := len(t.buf) - int(OutputLimit); over > 0 {
		t.buf = t.buf[:copy(t.buf, t.buf[over:])]
		t.cut = true
	}
}

func (t *tail) bytes() []byte {
	t.trim()
	return t.buf
}
