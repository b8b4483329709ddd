// Package record derives what others serve from what the database knows: the records from which
// guest planes serve instances, the events about control hosts that join and leave, and the metrics
// of nodes.
package record
