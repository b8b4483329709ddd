package api_test

// matched says how a native route that changes something is tried with an If-Match header, or why it
// takes none. POST and body are a request that would be carried out. object is the path of what it
// changes.
type matched struct {
	object, path, body string
	// why is the reason that the route takes no If-Match header.
	why string
}

const (
	makes    = "it makes an object, which has no ETag yet"
	plans    = "it changes nothing"
	repeats  = "it sends again what is recorded, and changes no object"
	moves    = "it is about two objects, a volume and an instance, and their states say whether it may be done"
	many     = "it is about many objects"
	announce = "it adds an event, and changes neither the node nor the instance"
	once     = "an event ends once, and after that the request is refused"
	disk     = "what is in the trash does not change: its ID says which it is"
)

// changingRoutes has a row for each native route that is not read.
var changingRoutes = map[string]matched{
	"POST /cleanup":                          {why: many},
	"POST /networks":                         {why: makes},
	"PATCH /networks/:name":                  {object: "/networks/default", body: `{"identity":"mac"}`},
	"DELETE /networks/:name":                 {object: "/networks/spare"},
	"POST /nodes":                            {why: makes},
	"PATCH /nodes/:name":                     {object: "/nodes/hv9", body: `{"worker":"https://hv9.example:7376"}`},
	"DELETE /nodes/:name":                    {object: "/nodes/hv9"},
	"POST /nodes/:name/maintenance":          {why: announce},
	"POST /maintenance/:id/complete":         {why: once},
	"POST /maintenance/:id/cancel":           {why: once},
	"POST /projects":                         {why: makes},
	"PATCH /projects/:name":                  {object: "/projects/acme", body: `{"description":"a shop"}`},
	"PUT /projects/:name/quota":              {object: "/projects/acme", path: "/quota", body: `{"max_instances":3}`},
	"DELETE /projects/:name":                 {object: "/projects/acme"},
	"POST /roles":                            {why: makes},
	"PUT /roles/:name":                       {object: "/roles/robots", body: `{"actions":["job.*"]}`},
	"DELETE /roles/:name":                    {object: "/roles/robots"},
	"POST /tokens":                           {why: makes},
	"DELETE /tokens/:name":                   {object: "/tokens/robot"},
	"PATCH /tokens/:name":                    {object: "/tokens/robot", body: `{"role":"operator"}`},
	"PUT /tokens/:name/quota":                {object: "/tokens/robot", path: "/quota", body: `{"max_instances":3}`},
	"POST /signin/confirm":                   {why: makes},
	"POST /signin/token":                     {why: makes},
	"DELETE /sessions/:id":                   {why: "nothing of a session changes: its ID says which it is"},
	"POST /images":                           {why: makes},
	"POST /volumes":                          {why: makes},
	"PATCH /volumes/:name":                   {object: "/volumes/data", body: `{"name":"data"}`},
	"DELETE /volumes/:name":                  {object: "/volumes/data"},
	"POST /volumes/:name/attach":             {why: moves},
	"POST /volumes/:name/detach":             {why: moves},
	"DELETE /images/:name":                   {object: "/images/spare"},
	"PUT /profiles/:name/published":          {object: "/profiles/p", path: "/published", body: `{"projects":["shop"]}`},
	"PUT /templates/system/:name/published":  {object: "/templates/system/s", path: "/published", body: `{"projects":["shop"]}`},
	"PUT /templates/network/:name/published": {object: "/templates/network/n", path: "/published", body: `{"projects":["shop"]}`},
	"PUT /templates/storage/:name/published": {object: "/templates/storage/d", path: "/published", body: `{"projects":["shop"]}`},
	"PUT /userdata/:name/published":          {object: "/userdata/u", path: "/published", body: `{"projects":["shop"]}`},
	"PUT /scripts/:name/published":           {object: "/scripts/x", path: "/published", body: `{"projects":["shop"]}`},
	"PUT /images/:name/published":            {object: "/images/spare", path: "/published", body: `{"projects":["shop"]}`},
	"POST /addresses":                        {why: makes},
	"DELETE /addresses/:name":                {object: "/addresses/203.0.113.16"},
	"POST /security-groups":                  {why: makes},
	"PATCH /security-groups/:name":           {object: "/security-groups/web", body: `{"allow":[{"direction":"in","protocol":"udp"}]}`},
	"DELETE /security-groups/:name":          {object: "/security-groups/web"},
	"PUT /networks/:name/published":          {object: "/networks/default", path: "/published", body: `{"projects":["shop"]}`},
	"POST /images/:name/content":             {why: makes},
	"POST /profiles":                         {why: makes},
	"PUT /profiles/:name": {
		object: "/profiles/p",
		body:   `{"name":"p","image":"debian","vcpus":2,"memory":"512MiB"}`,
	},
	"DELETE /profiles/:name":                    {object: "/profiles/p"},
	"POST /catalogue":                           {why: many},
	"POST /templates/system":                    {why: makes},
	"PUT /templates/system/:name":               {object: "/templates/system/s", body: `{"name":"s","vcpus":2,"memory":"1GiB"}`},
	"DELETE /templates/system/:name":            {object: "/templates/system/s"},
	"POST /templates/network":                   {why: makes},
	"DELETE /templates/network/:name":           {object: "/templates/network/n"},
	"POST /templates/network/:name/vnis":        {object: "/templates/network/n", path: "/vnis", body: `{"vni":"1000"}`},
	"DELETE /templates/network/:name/vnis/:vni": {object: "/templates/network/n", path: "/vnis/default"},
	"POST /templates/storage":                   {why: makes},
	"DELETE /templates/storage/:name":           {object: "/templates/storage/d"},
	"POST /templates/storage/:name/disks": {
		object: "/templates/storage/d", path: "/disks",
		body: `{"name":"sdb","pool":"default","size":"1GiB"}`,
	},
	"DELETE /templates/storage/:name/disks/:disk": {object: "/templates/storage/d", path: "/disks/sda"},
	"POST /userdata":               {why: makes},
	"PUT /userdata/:name":          {object: "/userdata/u", body: `{"name":"u","data":"#!y"}`},
	"DELETE /userdata/:name":       {object: "/userdata/u"},
	"POST /scripts":                {why: makes},
	"PUT /scripts/:name":           {object: "/scripts/x", body: `{"name":"x","text":"y"}`},
	"PATCH /scripts/:name/options": {object: "/scripts/x", path: "/options", body: `{"network":true}`},
	"DELETE /scripts/:name":        {object: "/scripts/x"},
	"PUT /ovas/:name/published":    {object: "/ovas/vm", path: "/published", body: `{"projects":["shop"]}`},
	"POST /ovas/:name/content":     {why: makes},
	"DELETE /ovas/:name":           {object: "/ovas/vm"},
	"POST /hooks":                  {why: makes},
	"PATCH /hooks/:name":           {object: "/hooks/ci", body: `{"rate":5}`},
	"DELETE /hooks/:name":          {object: "/hooks/ci"},
	"POST /hooks/:name/rotate": {
		object: "/hooks/ci", path: "/rotate",
		body: `{"secret":"whsec_CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk="}`,
	},
	"DELETE /hooks/:name/keys/:id":                {object: "/hooks/ci", path: "/keys/old"},
	"POST /hooks/:name/test":                      {why: plans},
	"POST /hooks/:name/deliveries/:id/redeliver":  {why: repeats},
	"POST /endpoints":                             {why: makes},
	"PATCH /endpoints/:name":                      {object: "/endpoints/out", body: `{"allow_private":true}`},
	"DELETE /endpoints/:name":                     {object: "/endpoints/out"},
	"POST /endpoints/:name/rotate":                {object: "/endpoints/out", path: "/rotate", body: `{}`},
	"POST /endpoints/:name/test":                  {why: plans},
	"POST /endpoints/:name/replay":                {why: repeats},
	"POST /endpoints/:name/deliveries/:id/resend": {why: repeats},
	"POST /instances":                             {why: makes},
	"PATCH /instances/:name":                      {object: "/instances/web1", body: `{"tags":{"a":"b"}}`},
	"DELETE /instances/:name":                     {object: "/instances/web1"},
	"POST /instances/:name/maintenance":           {why: announce},
	"POST /instances/:name/start":                 {object: "/instances/web1", path: "/start"},
	"POST /instances/:name/stop":                  {object: "/instances/web1", path: "/stop"},
	"POST /instances/:name/reboot":                {object: "/instances/web1", path: "/reboot"},
	"POST /instances/:name/rebuild":               {object: "/instances/web1", path: "/rebuild", body: `{}`},
	"POST /instances/:name/flatten":               {object: "/instances/web1", path: "/flatten"},
	"POST /instances/:name/resize":                {object: "/instances/web1", path: "/resize", body: `{"vcpus":2}`},
	"POST /instances/:name/snapshots":             {object: "/instances/web1", path: "/snapshots", body: `{"name":"later"}`},
	"POST /instances/:name/console":               {why: "it makes a ticket, and changes nothing"},
	"POST /instances/:name/exec":                  {why: "what it changes is the guest's"},
	"POST /instances/:name/file":                  {why: "it makes a ticket, and changes nothing"},
	"POST /instances/:name/vnc":                   {why: "it makes a ticket, and changes nothing"},
	"DELETE /instances/:name/snapshots/:snapshot": {object: "/instances/web1", path: "/snapshots/before"},
	"POST /plan":                                  {why: plans},
	"POST /plan/import":                           {why: plans},
	"POST /domains/:name/adopt":                   {object: "/domains/old", path: "/adopt"},
	"POST /instances/:name/forget":                {object: "/instances/web1", path: "/forget"},
	"POST /jobs/:id/cancel":                       {object: "/jobs/:job", path: "/cancel"},
	"POST /jobs/:id/retry":                        {object: "/jobs/:job", path: "/retry"},
	"POST /jobs/:id/undo":                         {object: "/jobs/:job", path: "/undo"},
	"POST /trash":                                 {why: makes},
	"POST /trash/:pool/:id/restore":               {why: disk},
	"DELETE /trash/:pool/:id":                     {why: disk},
}
