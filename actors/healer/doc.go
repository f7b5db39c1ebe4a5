// Package healer is the actor healer: it notices that objects of releases are gone, and queues a run of their module
// (H13). It also knows how healthy the others are (H25), and slows down heals that others undo.
package healer
