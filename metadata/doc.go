// Package metadata is the HTTP service that guests find at 169.254.169.254: an
// Amazon EC2 compatible tree of an instance's own data, IMDSv2 session tokens,
// and the one-time path on which cloud-init phones home.
//
// # Who asks
//
// A guest never says who it is; the kernel does. A bridge-family nftables rule
// (package netcfg) drops every frame whose source MAC is not the one that its
// tap belongs to, and puts the NIC's number into the mark of what is left.
// With net.ipv4.tcp_fwmark_accept=1 the accepted socket carries that mark, so
// getsockopt(SO_MARK) names the NIC, whatever addresses the guest gave itself.
// Three things are checked against the NIC's record on top of it: the listener
// is bound to the bridge of the NIC's network (SO_BINDTODEVICE, so that equal
// addresses on two bridges never mix), the MAC in the bridge's neighbour table
// for the peer's address is the NIC's, and the peer's address is the NIC's.
// Whatever does not agree is an unknown caller.
//
// A frame that passed no rule of ours, such as one from a tap on another host,
// has no mark, and its sender is unknown.
//
// The identity is found once per connection, before its first byte is read,
// and kept on it. The record is looked up for each request, so an instance
// that was retracted gets 404 on a connection that it already had.
//
// # Who is not known
//
// An unknown caller gets 404 when the directory is in sync with seedbedd.
// Before that nobody can tell a stranger from a guest whose record is still on
// its way; the connection is then held until the record comes or
// [Limits.Hold] is over, and closed without a status, because cloud-init
// retries that for minutes and gives up for good on most HTTP errors.
//
// # Records
//
// Each request of a guest gives an access record, and records cost disk here
// and at seedbedd, so an instance has 2 a second and bursts of 256 of them.
// Requests beyond are answered all the same and counted: one record with a path
// such as "(37 more requests)" follows. The first user-data fetch, the report and
// leases are always told.
//
// # Paths
//
// GET and HEAD on / and /{version}/…, where {version} is 1.0, latest or any date;
// PUT on /latest/api/token; POST on /seedbed/report/{token}. The tree is
// compiled once ([Render] walks it); a listing is made from the leaves that
// have a value, so nothing that is listed can be missing.
//
// Sources: AWS, "Instance metadata and user data" (EC2 user guide); cloud-init
// DataSourceEc2 and sources/helpers/ec2.py.
package metadata
