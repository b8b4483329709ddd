// Package metadata is the HTTP service that guests find at 169.254.169.254: an instance's own data
// in the dialects of Amazon EC2, OpenStack and NoCloud, IMDSv2 session tokens, and the paths on
// which guests write back (phone-home, the administrator's password).
//
// # Who the caller is
//
// A guest never says who it is; the kernel does. A bridge-family nftables rule (package netcfg)
// drops every frame whose source MAC is not that of its tap's NIC, and puts the number of the NIC
// into the mark of the other frames. With net.ipv4.tcp_fwmark_accept=1 the accepted socket carries
// that mark, so getsockopt(SO_MARK) names the NIC, whatever addresses the guest gave itself. In
// addition, three things are checked against the record of the NIC: the listener is bound to the
// bridge of the NIC's network (SO_BINDTODEVICE, so that equal addresses on two bridges never mix),
// the MAC in the bridge's neighbour table for the peer's address is the NIC's, and the peer's
// address is the NIC's. If any of them does not match, the caller is unknown.
//
// Over IPv6, guests choose their addresses, so only the mark and the MAC are checked. The neighbour
// entry of a marked caller is looked up at most once a second.
//
// A frame that did not pass Seedbed's rules, such as one from a tap on another node, has no mark,
// and its sender is unknown. If the identity of its network is [seedbed.IdentityMAC], however, the
// bridge and the MAC name the NIC, and over IPv4 the address must be that of the NIC. Frames of a
// NIC whose tap is on this node always have a mark, so an unmarked caller is never taken for that
// NIC.
//
// The kernel is asked once per connection, before its first byte is read. Its answer is looked up
// again whenever the directory changes, so a removed instance gets 404 on a connection that it
// already had.
//
// # Unknown callers
//
// An unknown caller gets 404 if the directory is in sync with seedbedd. Before that, the caller may
// be a guest whose record has not arrived yet. The connection is then held until the record comes
// or [Limits.Hold] is over, and closed without a status: cloud-init retries a closed connection for
// minutes, but gives up on most HTTP errors.
//
// # Records
//
// Each request of a guest makes an access record, and records take disk space here and at seedbedd.
// An instance therefore gets 2 records a second, with bursts of 256. Requests beyond that are still
// answered, and counted: one record with a path such as "(37 more requests)" follows. The first
// user-data fetch, the report and leases are always recorded.
//
// # Paths
//
// GET and HEAD on /, on /{version}/… (EC2; {version} is 1.0, latest or any date), on
// /openstack/{version}/… and on /nocloud/…; PUT on /latest/api/token; POST on
// /openstack/{version}/password and /seedbed/report/{token}. Each dialect is a compiled tree
// ([Render] walks it). A listing is made from the leaves that have a value, so whatever is listed
// can be fetched. The first answer of a crawl (a listing, a token, user-data, a document of
// OpenStack or NoCloud) pins the whole state for the instance, so that the client sees one
// consistent state. What clients poll for (events, spot, instance-action) is always current.
//
// http_tokens=required holds for all dialects, and http_endpoint=disabled for all requests. An
// option that another dialect circumvents would not protect anything.
//
// # A hundred thousand instances
//
// [Directory] holds only an index of NICs. The feed unpacks a record when a connection needs it,
// and the connection keeps it. A small change copies a small part of the index. State per instance
// is kept only from its first connection on.
//
// Sources: AWS, "Instance metadata and user data" (EC2 user guide); cloud-init DataSourceEc2,
// DataSourceOpenStack, DataSourceNoCloud and sources/helpers; OpenStack Nova, nova/api/metadata.
package metadata
