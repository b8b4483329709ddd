package main

// objectCommands are the arguments of each command that takes the name of an object, by the command. A
// word in braces stands for an object of its kind, {held} for an object to be made with the name of another,
// {file} and {secret} for files, and {out} for a file that does not exist yet.
var objectCommands = map[string][]string{
	"create": {
		"{held} --image debian --dry-run", "{held} --image none", "new --image {image} --dry-run", "new --image {image} --no-wait",
		"new --image debian --network {network} --dry-run", "new --image debian --network {network} --no-wait",
		"new --image debian --security-group {securitygroup} --dry-run", "new --image debian --security-group {securitygroup} --no-wait",
		"new --profile {profile} --dry-run", "new --profile {profile} --no-wait",
		"new --image debian --after {instance} --no-wait", "new --image debian --node {node} --no-wait",
	},

	"vm show":                 {"{instance}"},
	"vm remove":               {"{instance}", "{instance} {instance}"},
	"vm start":                {"{instance}"},
	"vm stop":                 {"{instance} --force"},
	"vm reboot":               {"{instance}"},
	"vm rebuild":              {"{instance}", "{instance} --image debian --dry-run", "{instance} --image debian"},
	"vm resize":               {"{instance} --vcpus 2", "{instance} --vcpus 2 --dry-run"},
	"vm flatten":              {"{instance}"},
	"vm forget":               {"{instance}"},
	"vm adopt":                {"{domain}", "{domain} --dry-run"},
	"vm log":                  {"{instance}", "{instance} --follow"},
	"vm wait":                 {"{instance} --timeout 5s"},
	"vm list":                 {"--name {instance}", "--node {node}", "--project {project}"},
	"vm adoptable":            {"--node {node}"},
	"vm protect":              {"{instance}"},
	"vm unprotect":            {"{instance}"},
	"vm security-groups":      {"{instance}", "{instance} open"},
	"vm tag":                  {"{instance}", "{instance} a=b"},
	"vm spot":                 {"{instance}", "{instance} --rebalance"},
	"vm metadata-options":     {"{instance}", "{instance} --http-tokens required"},
	"vm password":             {"{instance}"},
	"vm snapshot create":      {"{instance} new"},
	"vm snapshot list":        {"{instance}"},
	"vm snapshot remove":      {"{instance} {snapshot}"},
	"vm maintenance":          {"{instance} --not-before 2030-01-02T00:00:00Z"},
	"vm maintenance list":     {"{instance}"},
	"vm maintenance cancel":   {"{maintenance}"},
	"vm maintenance complete": {"{maintenance}"},

	"metadata show": {"{instance}", "{instance} /latest/meta-data/"},
	"metadata log":  {"{instance}"},
	"metadata lint": {"{instance}"},

	"job show":    {"{job}", "{short-job}"},
	"job cancel":  {"{job}", "{short-job}"},
	"job retry":   {"{job}", "{short-job}"},
	"job logs":    {"{job}", "{short-job}", "{job} --follow"},
	"job watch":   {"{job}", "{short-job}"},
	"job list":    {"--subject {instance}"},
	"orphan undo": {"{job}", "{short-job}"},
	"orphan list": {"--node {node}"},

	"image add":    {"{held} {file} --no-wait", "{held} none --no-wait", "{image} none --dry-run"},
	"image upload": {"{held} {file} --no-wait"},
	"image list":   {"--name {image}"},
	"image show":   {"{image}"},
	"image remove": {"{image}"},
	"network add": {
		"{held} --kind isolated --prefix 10.77.0.0/24", "{held-of} --kind isolated --prefix 10.77.0.0/24",
	},
	"network show":          {"{network}"},
	"security-group show":   {"{securitygroup}"},
	"security-group add":    {"new in tcp from group {securitygroup}"},
	"security-group allow":  {"{securitygroup} in tcp"},
	"security-group revoke": {"{securitygroup} in tcp"},
	"security-group list":   {"--name {securitygroup}"},
	"security-group remove": {"{securitygroup}"},
	"network set":           {"{network} --mtu 9000"},
	"network list":          {"--name {network}"},
	"network leases":        {"{network}"},
	"network remove":        {"{network}"},
	"project share": {
		"profile {profile} --draft", "system-template {system} --draft", "network-template {lan} --draft",
		"storage-template {storage} --draft", "userdata {userdata} --draft", "script {script} --draft", "image {image} --draft",
		"ova {ova} --draft", "network {network} --draft", "image mine --with {project}",
	},

	"hook add": {
		"{held} --no-save --secret-file {secret}", "{held-of} --no-save --secret-file {secret}",
		"new --profile {profile} --no-save --scheme bad",
	},
	"hook list":          {"--name {hook}"},
	"hook show":          {"{hook}"},
	"hook set":           {"{hook} --max-body 1KiB"},
	"hook test":          {"{hook} --data {}"},
	"hook rotate":        {"{hook} --no-save"},
	"hook remove":        {"{hook}"},
	"hook key list":      {"{hook}"},
	"hook key remove":    {"{hook} next"},
	"delivery show":      {"{delivery}", "{hook} {delivery}", "acme/mine {delivery}"},
	"delivery redeliver": {"{delivery}", "{hook} {delivery}", "acme/mine {delivery}"},
	"delivery list":      {"--hook {hook}", "--hook {hook} --rejected"},

	"endpoint add": {
		"{held} https://hooks.example/ --event job.failed --secret-file {secret}",
		"{held-of} https://hooks.example/ --event job.failed --secret-file {secret}",
	},
	"endpoint list":       {"--name {endpoint}"},
	"endpoint show":       {"{endpoint}"},
	"endpoint set":        {"{endpoint} --enable"},
	"endpoint rotate":     {"{endpoint}", "{endpoint} --secret-file {secret}"},
	"endpoint test":       {"{endpoint}"},
	"endpoint deliveries": {"{endpoint}"},
	"endpoint replay":     {"{endpoint} --since 2020-01-01T00:00:00Z"},
	"endpoint resend":     {"{endpoint} 1"},
	"endpoint remove":     {"{endpoint}"},

	"token add": {
		"{held} --role viewer --out {out}", "{held-of} --role viewer --out {out}", "new --role viewer --also {project}=viewer --out {out}",
	},
	"token list":   {"--name {token}"},
	"token show":   {"{token}"},
	"token quota":  {"{token} --max-instances 3"},
	"token set":    {"{token} --role viewer", "{token} --also {project}=viewer"},
	"token remove": {"{token}"},

	"session show":   {"{session}"},
	"session remove": {"{session}"},
	"session list":   {"--user {person}"},

	"project add":    {"{project}"},
	"project list":   {"--name {project}"},
	"project show":   {"{project}"},
	"project set":    {"{project} --description new"},
	"project quota":  {"{project} --max-instances 3"},
	"project remove": {"{project}", "{project} --everything"},

	"trash restore": {"{trash}"},
	"trash purge":   {"{trash}", "{trash} --node {node}"},
	"trash discard": {"default/{restored}"},
	"trash list":    {"--instance {instance}", "--node {node}"},

	"node add":                  {"{node} --worker https://hv.example:7375"},
	"node show":                 {"{node}"},
	"node set":                  {"{node} --worker https://hv.example:7375"},
	"node cordon":               {"{node}"},
	"node uncordon":             {"{node}"},
	"node list":                 {"--name {node}"},
	"node remove":               {"{node}"},
	"node maintenance":          {"{node}"},
	"node maintenance list":     {"{node}"},
	"node maintenance cancel":   {"{maintenance}"},
	"node maintenance complete": {"{maintenance}"},
	"pool list":                 {"--node {node}"},

	"role add": {"{role} --allow job.read"},

	"profile add": {
		"{held} --image none", "{held-of} --image debian", "new --image {image}",
		"new --system-template {system} --image debian", "new --image debian --network-template {lan}", "new --storage-template {storage}",
		"new --image debian --userdata-document {userdata}", "new --image debian --script {script}",
	},
	"profile list":   {"--name {profile}"},
	"profile show":   {"{profile}"},
	"profile set":    {"{profile} --vcpus 2"},
	"profile remove": {"{profile}"},

	"provisioner profile add": {"{held} --system-template {system} --script {script}"},

	"provisioner create": {"{held} none", "{held} none --no-define --no-wait", "new {profile} --no-wait"},

	"template system add":          {"{held} --vcpus 1 --vram 512MiB", "{held-of} --vcpus 1 --vram 512MiB"},
	"template system set":          {"{system} --vcpus 2"},
	"template system list":         {"{system}"},
	"template system remove":       {"{system}"},
	"template network add":         {"{held}", "{held-of}"},
	"template network list":        {"{lan}"},
	"template network remove":      {"{lan}"},
	"template network vni add":     {"{lan} {network}"},
	"template network vni remove":  {"{lan} {network}"},
	"template storage add":         {"{held}", "{held-of}"},
	"template storage list":        {"{storage}"},
	"template storage remove":      {"{storage}"},
	"template storage disk add":    {"{storage} sdb --pool default"},
	"template storage disk remove": {"{storage} sda"},
	"userdata add":                 {"{held} {file}", "{held-of} {file}"},
	"userdata list":                {"{userdata}"},
	"userdata show":                {"{userdata}"},
	"userdata set":                 {"{userdata} {file}"},
	"userdata remove":              {"{userdata}"},
	"script add":                   {"{held} {file}", "{held-of} {file}"},
	"script list":                  {"{script}"},
	"script show":                  {"{script}"},
	"script set":                   {"{script} {file}"},
	"script options":               {"{script}", "{script} --time 1m"},
	"script remove":                {"{script}"},
	"ova list":                     {"{ova}"},
	"ova upload":                   {"{ova} {file} --pool default"},
	"ova remove":                   {"{ova}"},
}

const (
	nothing = "it names no object"
	locally = "it works on files of the caller, and does not ask the API for an object"
	shared  = "all projects see the object, which is of the installation"
)

// objectless are the commands without a row in objectCommands, and why. Those of the group provisioner have
// the rows of their counterparts.
var objectless = map[string]string{
	"audit": nothing, "certificate identity": nothing, "cleanup": nothing, "login": nothing, "logout": nothing, "role actions": nothing,
	"status": nothing, "version": nothing, "whoami": nothing,

	"catalogue export": locally, "catalogue import": locally, "cluster ca": locally, "cluster issue": locally, "docs man": locally,
	"doctor": locally, "script check": locally, "connection add": locally, "connection import-pvc": locally,
	"connection list": locally, "connection remove": locally, "connection use": locally,
	"hook send": "it calls the receiver of webhooks, to which the hook's secret counts, not a token",

	"role show": shared, "role list": shared, "role set": shared, "role remove": shared,
}
