// Package cleanup removes what is left over: addresses of instances whose domain is gone, expired
// leases, records past their retention, items of the trash whose time is over, and what failed jobs
// have left behind. A Cleaner does one run. Cron runs it on a schedule, once per installation.
package cleanup
