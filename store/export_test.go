package store

// Fresh opens an empty SQLite database for the contract suite.
var Fresh = fresh
