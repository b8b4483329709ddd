package seedbed_test

// layout is which packages of this module a package may import, besides the root package, which all
// may. What is not here is not allowed: a new package needs a row. "x/*" is every package below x;
// a package's own row counts before such a row. Tests of a package may import more.
var layout = map[string]string{
	".": "",

	// The API: requests and answers that server, client and command line share, the two kinds of
	// routes, which do not know each other, and what both stand on.
	"api":       "api/wire api/rest api/pvc api/server internal/httpserve",
	"api/wire":  "",
	"api/reach": "",
	"api/rest":  "api/reach api/wire api/server api/signin internal/httpserve provision/network",
	"api/pvc":   "api/wire api/server internal/httpserve provision/network",
	"api/server": "api/signin api/wire internal/duplex internal/header internal/httpserve internal/sleep internal/throttle " +
		"internal/userdata provision/network",
	"api/signin": "",
	"api/client": "api/wire internal/duplex internal/sleep",

	// Deliveries that come in and go out.
	"webhook":           "api/wire internal/header internal/httpserve internal/throttle provision/network webhook/signature",
	"webhook/outbox":    "internal/build webhook/signature",
	"webhook/signature": "internal/header",

	// Jobs. The engine knows no plan, and nothing here knows a driver.
	"provision":           "provision/intake provision/engine provision/plans provision/record",
	"provision/intake":    "internal/sleep provision/placement provision/template provision/record",
	"provision/engine":    "internal/sleep provision/effects",
	"provision/plans":     "internal/sleep metadata provision/effects provision/engine provision/record",
	"provision/cleanup":   "internal/sleep provision/effects",
	"provision/record":    "internal/sleep",
	"provision/failover":  "internal/sleep provision/effects",
	"provision/network":   "api/wire",
	"provision/placement": "",
	"provision/template":  "",

	// The worker and its drivers. Drivers do not know each other, nor the worker.
	"provision/effects": "internal/duplex",
	"provision/fleet":   "internal/duplex internal/mtls provision/effects",
	"provision/worker": "internal/command internal/durable internal/duplex internal/httpserve internal/mtls provision/backup " +
		"provision/effects",
	"provision/worker/drivertest": "internal/duplex internal/ovatest internal/sample provision/backup provision/effects provision/fleet " +
		"provision/image provision/pooltag provision/worker",
	"provision/backup": "internal/durable",
	"provision/ceph": "internal/cgate internal/command internal/sleep provision/backup provision/image provision/mapper " +
		"provision/pooltag",
	"provision/dir": "internal/command internal/durable internal/sleep provision/backup provision/image provision/mapper " +
		"provision/pooltag",
	"provision/libvirt":        "internal/cephkey internal/cgate provision/image provision/seed",
	"provision/hook":           "internal/command",
	"provision/image":          "internal/command",
	"provision/mapper":         "internal/cephkey internal/cgate internal/command internal/sleep",
	"provision/pooltag":        "",
	"provision/seed":           "internal/durable",
	"provision/script":         "provision/script/python provision/script/sandbox",
	"provision/script/python":  "",
	"provision/script/sandbox": "",
	"internal/cephkey":         "",
	"internal/cgate":           "",
	"internal/command":         "",

	// The guest plane.
	"guestplane": "feed internal/config internal/run internal/sleep metadata netcfg netcfg/clock netcfg/dhcp " +
		"netcfg/dhcp6 netcfg/dns netcfg/probe netcfg/ra",
	"feed":              "internal/durable internal/httpserve internal/mtls internal/sleep",
	"metadata":          "internal/ifbind",
	"netcfg":            "internal/durable netcfg/wireguard",
	"netcfg/clock":      "internal/ifbind",
	"netcfg/dhcp":       "internal/ifbind",
	"netcfg/dhcp6":      "internal/ifbind",
	"netcfg/probe":      "netcfg",
	"netcfg/ra":         "internal/ifbind",
	"netcfg/dns":        "internal/ifbind",
	"netcfg/netnstest":  "",
	"netcfg/wireguard":  "internal/durable",
	"internal/feedtest": "*",

	// The store: packages that are each the only writer of their tables, over one database.
	"store":                 "store/*",
	"store/sqldb":           "",
	"store/groupcommit":     "store/outbox store/sqldb",
	"store/outbox":          "store/access store/sqldb",
	"store/access":          "store/sqldb",
	"store/feed":            "store/groupcommit store/instances store/jobs store/nodes store/outbox store/sqldb",
	"store/catalogue":       "store/access store/groupcommit store/outbox store/sqldb",
	"store/backups":         "store/access store/sqldb",
	"store/hooks":           "store/access store/catalogue store/groupcommit store/outbox store/sqldb",
	"store/instances":       "store/access store/catalogue store/groupcommit store/nodes store/outbox store/sqldb",
	"store/*":               "store/groupcommit store/outbox store/sqldb",
	"store/local":           "",
	"store/zk":              "internal/sleep",
	"store/coordtest":       "",
	"store/sqldb/sqldbtest": "store/sqldb",
	"store/storetest":       "internal/feedtest store store/sqldb",

	// The programs are wiring.
	"cmd/seedbed":          "internal/cli internal/cli/*",
	"cmd/seedbedd":         "*",
	"cmd/seedbed-worker":   "internal/config internal/mtls internal/run netcfg netcfg/probe netcfg/wireguard provision/*",
	"cmd/seedbed-metadata": "feed guestplane internal/config internal/mtls internal/run metadata netcfg netcfg/dns netcfg/wireguard",
	// The command line: what commands share, the flags that several have, and the commands by noun.
	"internal/cli":          "api/client api/wire internal/build internal/config internal/durable internal/mtls internal/sleep",
	"internal/cli/flags":    forCLI,
	"internal/cli/cluster":  "internal/mtls " + forCLI,
	"internal/cli/doctor":   "internal/config internal/mtls netcfg " + forCLI,
	"internal/cli/hook":     "internal/config webhook/signature " + forCLI,
	"internal/cli/instance": "internal/cli/flags internal/command internal/config internal/duplex internal/durable " + forCLI,
	"internal/cli/metadata": "internal/command internal/userdata " + forCLI,
	"internal/cli/session":  "internal/command " + forCLI,
	"internal/cli/profile":  "internal/cli/flags provision/script/python " + forCLI,
	"internal/cli/*":        "internal/cli/flags " + forCLI,

	// What programs share.
	"internal/build":     "",
	"internal/config":    "",
	"internal/duplex":    "",
	"internal/durable":   "",
	"internal/header":    "",
	"internal/httpserve": "internal/header internal/reload",
	"internal/identity":  "",
	"internal/mtls":      "internal/durable internal/reload",
	"internal/reload":    "",
	"internal/run":       "internal/build internal/config internal/httpserve",
	"internal/ifbind":    "",
	"internal/sleep":     "",
	"internal/throttle":  "",
	"internal/userdata":  "",

	// What tests and benchmarks are made with.
	"internal/bench":    "",
	"internal/bench/*":  "*",
	"internal/lab":      "api/client api/wire",
	"internal/lab/*":    "internal/lab",
	"internal/oidctest": "",
	"internal/ovatest":  "",
	"internal/soak":     "",
	"internal/sample":   "",
	"internal/testdb":   "internal/lab internal/sample store store/sqldb store/sqldb/sqldbtest",
}

// forCLI is what commands are made with; never the store, nor what makes instances.
const forCLI = "api/client api/wire internal/cli"

// outside is which packages may import some packages of the standard library, and of other modules.
// A path stands for all packages below it as well.
var outside = map[string]string{
	"database/sql":             "store store/sqldb store/groupcommit store/* internal/bench/*",
	"github.com/jackc/pgx":     "store store/sqldb store/groupcommit internal/lab internal/testdb internal/bench/*",
	"modernc.org/sqlite":       "store/sqldb internal/bench/*",
	"github.com/pressly/goose": "store/sqldb",
	"github.com/gofiber/fiber": "api api/rest api/pvc api/server webhook feed metadata " +
		"provision/worker internal/httpserve internal/run internal/bench/*",
	"os/exec": "internal/command provision/hook provision/script/python internal/cli/doctor internal/cli/profile " +
		support,
	"testing": support,
	"reflect": "internal/cli api api/rest api/pvc api/server webhook feed guestplane metadata netcfg internal/config provision provision/* " +
		support,
	"libvirt.org/go/libvirt":        "provision/libvirt internal/bench/*",
	"github.com/ceph/go-ceph":       "provision/ceph internal/bench/*",
	"github.com/spf13/cobra":        "cmd/seedbed internal/cli internal/cli/*",
	"github.com/fasthttp/websocket": "internal/duplex " + support,
	"golang.org/x/term":             "internal/cli/instance",
	"github.com/miekg/dns":          "netcfg/dns internal/bench/*",
	"github.com/beevik/ntp":         "guestplane",
	"github.com/mdlayher/ndp":       "netcfg/probe netcfg/ra",
	"golang.zx2c4.com/wireguard":    "netcfg/wireguard",
	"github.com/google/nftables":    "netcfg internal/bench/* " + support,
	"github.com/coreos/go-oidc":     "api/signin",
	"golang.org/x/oauth2":           "api/signin",
	"github.com/go-jose/go-jose":    support,
	"github.com/diskfs/go-diskfs":   "provision/seed",
	"github.com/klauspost/compress": "provision/backup",
	"filippo.io/age":                "provision/backup",
	"github.com/minio/minio-go":     "provision/backup",
}

// tables is which package of the store writes a table. Besides, those of together write it: package
// store in transactions that change several things at once, and package feed what a guest's reports
// and live user-data change of its instance.
var (
	tables = map[string]string{
		"access":  "audit keyed_request project project_removed role session sign_in token",
		"backups": "backup_owner backup_target schedule",
		"catalogue": "claim image network_template network_template_net ova ova_volume profile published script " +
			"storage_template storage_template_disk system_template userdata",
		"feed":  "blob feed feed_node guest_event lease maintenance peer peer_head",
		"hooks": "delivery delivery_other delivery_rejected hook hook_key hook_profile",
		"instances": "floating_address instance network network_peer nic placement_group project_volume " +
			"secondary_address security_group snapshot volume",
		"jobs":   "event_order job job_event job_output job_stage orphan",
		"nodes":  "node stray",
		"outbox": "endpoint endpoint_key outbox",
		"sqldb":  "setting",
		"store":  "cron_run instance_script job_script rebuild",
	}
	together = map[string]string{"store": "instance job job_stage nic project volume", "feed": "instance"}
)

// support are the packages that only tests and benchmarks import.
const support = "internal/lab internal/sample internal/lab/* internal/testdb internal/feedtest " +
	"internal/oidctest internal/ovatest internal/bench internal/bench/* internal/soak " +
	"netcfg/netnstest store/sqldb/sqldbtest store/storetest store/coordtest provision/worker/drivertest"

// sizes: how much may be in one place. What is above it today is listed, with how much it may be;
// such a number only goes down.
const (
	maxFiles   = 40 // non-test Go files of a package
	maxLines   = 400
	maxColumns = 140
)

var (
	manyFiles = map[string]int{}
	longFiles = map[string]int{"provision/ceph/header_integration_test.go": 439}
	// wideLines is how many lines of a test, or of what supports tests, may be wider; of programs, none.
	// Most are the text of a document.
	wideLines = map[string]int{
		"internal/e2e/scripted_integration_test.go":           3,
		"internal/lab/node.go":                                1,
		"internal/ovatest/ovatest.go":                         3,
		"provision/ceph/ceph_test.go":                         3,
		"provision/ceph/header_integration_test.go":           3,
		"provision/ceph/task_test.go":                         1,
		"provision/hook/hook_test.go":                         5,
		"provision/image/ovf_test.go":                         3,
		"provision/libvirt/scripted_test.go":                  1,
		"provision/plans/scriptdata_test.go":                  5,
		"provision/script/sandbox/escape_integration_test.go": 1,
		"provision/script/sandbox/limit_integration_test.go":  1,
		"provision/script/sandbox/work_integration_test.go":   2,
		"provision/script/script_integration_test.go":         7,
		"store/profile_upgrade_test.go":                       2,
		"store/upgrade_test.go":                               1,
	}
)

// contextValues are the files that may put values into a context: who asks and what is traced, and
// where output goes.
var contextValues = []string{
	"access.go", "job.go",
}
