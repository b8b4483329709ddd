// Package record makes what others keep and show of the installation: the records from which guest
// planes serve instances, the events about control hosts that join and leave, and the metrics of
// nodes.
package record
