// Package healer is the actor healer: it notices that objects of releases are gone, and queues a run of their module
// (H13). It also reads how healthy the others are (H25), and slows down the heals of contested objects: those that
// another client deletes again after each heal.
package healer
