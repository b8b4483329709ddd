package lab

import (
	"fmt"
	"net"
	"os"
	"sync"
)

// The ports that FreePort gives. The kernel gives none of them to those who ask for any port, or
// who connect (net.ipv4.ip_local_port_range), so that one stays free until its user listens, and
// while that is restarted. Ceph's daemons choose theirs below.
const firstPort, lastPort = 10000, 32000

// given are the ports that this process has given so far.
var given struct {
	sync.Mutex
	next int
	// held reserves them against other processes, for the life of this one.
	held []net.Listener
}

// FreePort returns a TCP port of 127.0.0.1 that nothing listens on. No other test on this machine
// gets it while this process lives.
func FreePort(t T) int {
	t.Helper()
	given.Lock()
	defer given.Unlock()
	if given.next == 0 {
		given.next = firstPort + os.Getpid()*64%(lastPort-firstPort)
	}
	for range lastPort - firstPort {
		port := given.next
		if given.next++; given.next == lastPort {
			given.next = firstPort
		}
		if reserved := reserve(port); reserved != nil {
			given.held = append(given.held, reserved)
			return port
		}
	}
	t.Fatal("there is no free port")
	return 0
}

// reserve reserves a port on which nothing listens; nil if that is not possible. The reservation is
// a socket in the kernel's abstract namespace, which goes with the process.
func reserve(port int) net.Listener {
	reserved, err := net.Listen("unix", fmt.Sprintf("@seedbed-lab-port-%d", port))
	if err != nil {
		return nil
	}
	free, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		reserved.Close()
		return nil
	}
	free.Close()
	return reserved
}
