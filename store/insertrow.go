package store

import (
	"math/bits"
	"strconv"
	"strings"
)

// The tables that an accepted request writes to, with their columns.
const (
	intoJob      = `job (id, kind, state, subject, instance, spec, node, pool, on_failure, priority, after, blocked, created, events)`
	intoInstance = `instance (id, name, profile, image, node, state, vcpus, memory, ready, held, user_data, ssh_keys, report_token,
		vendor_data, datasource, metadata, tags, spot, password, protected, follow, source, params, system, token, hook, revision, created, changed)`
	intoNIC      = `nic (instance, idx, mac, network, addr)`
	intoVolume   = `volume (pool, name, instance, idx, size, image)`
	intoDelivery = `delivery (hook, id, sha256, received, job, peer, headers, payload)`
	intoEvent    = `job_event (job, seq, at, level, stage, msg, progress, bytes_done, bytes_total)`
	intoAudit    = `audit (at, actor, role, peer, request, what, before, asked)`
)

// addOrder lists the tables that rows are added to, each after those that it refers to.
var addOrder = []string{intoJob, intoInstance, intoNIC, intoVolume, intoDelivery, intoEvent, intoAudit}

// placeholders returns n placeholders in parentheses, numbered from first.
func placeholders(first, n int) string {
	var b strings.Builder
	for at := range n {
		b.WriteString(", $" + strconv.Itoa(first+at))
	}
	return "(" + b.String()[2:] + ")"
}

// rowsOfOne returns n rows of one placeholder each, numbered from first.
func rowsOfOne(first, n int) string {
	var all []string
	for at := range n {
		all = append(all, placeholders(first+at, 1))
	}
	return strings.Join(all, ", ")
}

// insertRows returns the statement that inserts n rows with the given number of columns.
func insertRows(into string, n, columns int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + into + " VALUES ")
	for row := range n {
		if row > 0 {
			b.WriteString(", ")
		}
		b.WriteString(placeholders(1+row*columns, columns))
	}
	return b.String()
}

// grouped merges consecutive insertions of rows into statements that insert up to most rows each.
func grouped(all []statement, most int) (made []statement) {
	for len(all) > 0 {
		rows := 0
		for rows < len(all) && all[rows].into != "" {
			rows++
		}
		if rows == 0 {
			made, all = append(made, all[0]), all[1:]
			continue
		}
		made, all = append(made, inserts(all[:rows], most)...), all[rows:]
	}
	return made
}

// inserts returns the statements that insert rows, table by table.
func inserts(rows []statement, most int) (made []statement) {
	byTable := map[string][]statement{}
	for _, r := range rows {
		byTable[r.into] = append(byTable[r.into], r)
	}
	for _, into := range addOrder {
		for rows := byTable[into]; len(rows) > 0; {
			// Use a power of two, so that a few prepared statements serve any number of rows.
			n := min(1<<(bits.Len(uint(len(rows)))-1), most)
			var args []any
			for _, r := range rows[:n] {
				args = append(args, r.args...)
			}
			made = append(made, statement{query: insertRows(into, n, len(rows[0].args)), args: args})
			rows = rows[n:]
		}
	}
	return made
}
