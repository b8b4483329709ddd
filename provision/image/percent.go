package image

import (
	"bytes"
	"strconv"
)

// percents parses the standard output of qemu-img -p, repeated lines "    (12.34/100%)\r", and
// reports the percentages, which only increase.
type percents struct {
	report func(float64)
	line   []byte
	last   float64
}

// longLine is more than any line of progress.
const longLine = 64

// Write never fails.
func (p *percents) Write(b []byte) (int, error) {
	for _, c := range b {
		switch {
		case c == '\r' || c == '\n':
			p.take()
			p.line = p.line[:0]
		case len(p.line) < longLine:
			p.line = append(p.line, c)
		}
	}
	return len(b), nil
}

func (p *percents) take() {
	text, ok := bytes.CutSuffix(bytes.TrimSpace(p.line), []byte("/100%)"))
	if !ok || len(text) == 0 || text[0] != '(' {
		return
	}
	v, err := strconv.ParseFloat(string(text[1:]), 64)
	if err != nil || !(v > p.last) || v > 100 {
		return
	}
	p.last = v
	if p.report != nil {
		p.report(v)
	}
}
