package cli

import (
	"crypto/rand"
	"strings"
)

// NewIdentity is the text in the Lease by which the others know this process and reach it: none of its parts has an
// underscore but perhaps the name.
func NewIdentity(name, address string) string {
	const digits = 8
	return name + "_" + address + "_" + strings.ToLower(rand.Text()[:digits])
}

// ParseIdentity is the opposite of NewIdentity. What is not one of ours is a name without an address.
func ParseIdentity(identity string) (name, address string) {
	rest := identity[:max(0, strings.LastIndex(identity, "_"))]
	i := strings.LastIndex(rest, "_")
	if i < 0 {
		return identity, "" // not one of ours
	}
	return rest[:i], rest[i+1:]
}
