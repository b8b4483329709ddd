package fleet

import (
	"bufio"
	"bytes"

	"seedbed/provision/effects"
)

// resultPrefix is how a line with a result begins, and no other.
var resultPrefix = []byte(`{"result":`)

// bounded is bufio.ScanLines for the lines of an answer. A line that is not the result
// ends it with bufio.ErrTooLong before more than effects.MaxLine of it is held: a worker may
// have been taken over, and such lines come without number.
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
