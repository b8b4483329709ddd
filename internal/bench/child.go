package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// Child is this program, started again as the server that is measured.
type Child struct {
	// Addr is where it listens.
	Addr string
	PID  int
	cmd  *exec.Cmd
	in   io.Closer
}

// StartChild starts this program again, with name=value in its environment, by
// which it knows what it is. It must print where it listens as its first line,
// and end with its input (Served).
func StartChild(ctx context.Context, name, value string) (*Child, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), name+"="+value)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &Child{PID: cmd.Process.Pid, cmd: cmd, in: in}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the measured server did not start: %w", c.End())
	}
	c.Addr = strings.TrimSpace(line)
	return c, nil
}

// End ends it and waits for that.
func (c *Child) End() error {
	c.in.Close()
	return c.cmd.Wait()
}

// Served is the child's side: it says where it listens, and calls end once the parent has ended it.
func Served(addr fmt.Stringer, end func()) {
	fmt.Println(addr)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		end()
	}()
}
