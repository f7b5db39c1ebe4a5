// Package shared is what all actors share: what they may touch outside of their mailboxes ([World]), what they have in
// common ([Program]), how they address each other and queues, how the triggers of a hook are merged, and how loops of hooks
// are slowed down.
//
// It has no actor. What it holds is immutable after the start, or synchronises itself and says which actor writes it.
package shared
