// Package metadata is the HTTP service that guests find at 169.254.169.254: an
// instance's own data in the dialects of Amazon EC2, OpenStack and NoCloud,
// IMDSv2 session tokens, and the paths on which guests write back (phone-home,
// the administrator's password).
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
// Over IPv6 guests choose their addresses: the mark and the MAC are what counts.
// The neighbour entry of a marked caller is looked up at most once a second.
//
// A frame that passed no rule of ours, such as one from a tap on another host,
// has no mark, and its sender is unknown, unless its network's identity is
// [seedbed.IdentityMAC]: then the bridge and the MAC name the NIC, and over IPv4
// the address must be the NIC's. A NIC whose tap is on this host has a mark, so
// that nobody is taken for it without one.
//
// The kernel is asked once per connection, before its first byte is read. What
// it said is looked up again whenever the directory changes, so an instance
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
// Requests beyond it are still answered, and counted: one record with a path
// such as "(37 more requests)" follows. The first user-data fetch, the report and
// leases are always told.
//
// # Paths
//
// GET and HEAD on /, on /{version}/… (EC2; {version} is 1.0, latest or any date),
// on /openstack/{version}/… and on /nocloud/…; PUT on /latest/api/token; POST on
// /openstack/{version}/password and /seedbed/report/{token}. Each dialect is a
// compiled tree ([Render] walks it); a listing is made from the leaves that
// have a value, so nothing that is listed can be missing. The first answer of a
// crawl (a listing, a token, user-data, a document of OpenStack or NoCloud) pins
// the whole state for the instance, so that a client sees one; what it polls for
// (events, spot, instance-action) is still told at once.
//
// http_tokens=required holds for all dialects, http_endpoint=disabled for all
// requests: an option that a second dialect walks round protects nothing.
//
// # A hundred thousand instances
//
// [Directory] has only an index of NICs. A record is unpacked by the feed when
// a connection needs it, and kept on the connection. A small change copies a
// small part of the index. What is remembered of an instance begins with its
// first connection.
//
// Sources: AWS, "Instance metadata and user data" (EC2 user guide); cloud-init
// DataSourceEc2, DataSourceOpenStack, DataSourceNoCloud and sources/helpers;
// OpenStack Nova, nova/api/metadata.
package metadata
