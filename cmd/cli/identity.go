package cli

import (
	"crypto/rand"
	"strings"
)

// NewIdentity is the text in the Lease by which other replicas recognise this process and find its
// probes. The random end makes it unique: the name of a Pod stays when its container is restarted.
// Only the name may contain underscores.
func NewIdentity(name, address string) string {
	const digits = 8
	return name + "_" + address + "_" + strings.ToLower(rand.Text()[:digits])
}

// ParseIdentity is the inverse of NewIdentity, from the end, because the name may have underscores.
// The identity of another program is a name without an address.
func ParseIdentity(identity string) (name, address string) {
	rest := identity[:max(0, strings.LastIndex(identity, "_"))]
	i := strings.LastIndex(rest, "_")
	if i < 0 {
		return identity, ""
	}
	return rest[:i], rest[i+1:]
}
