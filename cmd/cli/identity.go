package cli

import (
	"cmp"
	"crypto/rand"
	"strings"
)

// NewIdentity is the text in the Lease by which other replicas recognise this one and find its probes. In a Pod it ends
// with the uid of that: a container that is restarted there goes on at once, because the process before it has ended
// (L4). Elsewhere nothing proves that, and the end is random. Only the name may contain underscores.
func NewIdentity(name, address, podUID string) string {
	const digits = 8
	return name + "_" + address + "_" + cmp.Or(podUID, strings.ToLower(rand.Text()[:digits]))
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
