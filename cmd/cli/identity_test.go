package cli

import "testing"

// The name and the address in an identity come back whole, whatever they look like.
func TestIdentity(t *testing.T) {
	for _, c := range []struct{ name, address string }{
		{"operator-5d8f-x2x", "10.0.0.7:9650"},
		{"a_host_with_underscores", "[fd00::1]:9650"},
	} {
		identity := NewIdentity(c.name, c.address, "")
		name, address := ParseIdentity(identity)
		if name != c.name || address != c.address {
			t.Errorf("%s became %q, %q", identity, name, address)
		}
		if identity == NewIdentity(c.name, c.address, "") {
			t.Error("two processes have one identity")
		}
		if first, again := NewIdentity(c.name, c.address, "uid"), NewIdentity(c.name, c.address, "uid"); first != again {
			t.Errorf("a container that is restarted in its Pod has the identity %s, and then %s", first, again)
		}
	}
	for _, foreign := range []string{"", "somebody", "some_body"} {
		if name, address := ParseIdentity(foreign); name != foreign || address != "" {
			t.Errorf("%q became %q, %q", foreign, name, address)
		}
	}
}
