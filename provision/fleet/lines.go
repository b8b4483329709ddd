package fleet

import (
	"bufio"
	"bytes"

	"seedbed/provision/effects"
)

// resultPrefix is how a line with a result begins; no other line begins so.
var resultPrefix = []byte(`{"result":`)

// bounded is bufio.ScanLines for the lines of an answer. It returns bufio.ErrTooLong for a line
// that is not the result before it buffers more than effects.MaxLine of it: a worker may be
// compromised, and the number of such lines is not limited.
func bounded(data []byte, atEOF bool) (advance int, token []byte, err error) {
	advance, token, err = bufio.ScanLines(data, atEOF)
	held := len(token)
	if token == nil {
		held = len(data)
	}
	if held > effects.MaxLine && !bytes.HasPrefix(data, resultPrefix) {
		return 0, nil, bufio.ErrTooLong
	}
	return advance, token, err
}
