package script

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"seedbed"
)

// maxLine bounds one message of a script's process, in bytes.
const maxLine = 16 << 20

// message is a message between a session and the runner in the sandbox, one per line;
// python/lib/seedbed/_session.py has the other side.
type message struct {
	Op string `json:"op"`
	// Of begin.
	Script    string          `json:"script,omitempty"`
	Name      string          `json:"vm_name,omitempty"`
	Number    json.Number     `json:"vm_id,omitempty"`
	UUID      string          `json:"vm_uuid,omitempty"`
	Profile   string          `json:"vm_profile,omitempty"`
	Data      json.RawMessage `json:"vm_data,omitempty"`
	Directory string          `json:"temporary_directory,omitempty"`
	// Of ready.
	Kind string `json:"kind,omitempty"`
	// Of step, done and failed.
	Step      string `json:"step,omitempty"`
	XML       string `json:"xml,omitempty"`
	Class     string `json:"class,omitempty"`
	Message   string `json:"message,omitempty"`
	Traceback string `json:"traceback,omitempty"`
	// Unreached is set if the script has tried to reach what its network does not lead to.
	Unreached bool `json:"unreached,omitempty"`
	// Of log.
	Level string `json:"level,omitempty"`
	Msg   string `json:"msg,omitempty"`
	// Of call and answer.
	ID   int64     `json:"id,omitempty"`
	Call string    `json:"name,omitempty"`
	Args *callArgs `json:"args,omitempty"`
	OK   *bool     `json:"ok,omitempty"`
}

type callArgs struct {
	Pool   string `json:"pool"`
	Name   string `json:"name"`
	Size   string `json:"size"`
	Source string `json:"source"`
}

// parseMessage parses one line of the runner, which is not trusted: the script can write to its
// descriptor too.
func parseMessage(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}, seedbed.Errorf(seedbed.ErrInvalid, "the script's process has sent an invalid message: %v", err)
	}
	switch m.Op {
	case "ready", "done", "failed", "log":
		return m, nil
	case "call":
		if m.Args == nil {
			return message{}, seedbed.Errorf(seedbed.ErrInvalid, "the script's process has called %q without arguments", seedbed.Clip(m.Call))
		}
		return m, nil
	}
	return message{}, seedbed.Errorf(seedbed.ErrInvalid, "the script's process has sent the message %q, which is unknown", seedbed.Clip(m.Op))
}

// listen passes on the runner's messages until it ends or breaks the protocol, and then closes the
// channel.
func listen(conn net.Conn, heard chan<- heard, stop <-chan struct{}) {
	defer close(heard)
	lines := bufio.NewScanner(conn)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		m, err := parseMessage(lines.Bytes())
		if !tell(heard, stop, m, err) || err != nil {
			return
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		tell(heard, stop, message{}, seedbed.Errorf(seedbed.ErrInvalid, "the script's process has sent a message of more than %d bytes", maxLine))
	}
}

// heard is a message, or why there will be no more.
type heard struct {
	message
	err error
}

func tell(to chan<- heard, stop <-chan struct{}, m message, err error) bool {
	select {
	case to <- heard{m, err}:
		return true
	case <-stop:
		return false
	}
}

// say sends a message to the runner.
func say(conn net.Conn, m message) error {
	b, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write to the script's process: %w", err)
	}
	_, err = conn.Write(append(b, '\n'))
	return err
}
