package kafka

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ApiVersions (18): v0 to v4. v1 adds the throttle time, v3 is flexible and names the client's software (KIP-511), v4 lets features begin at version 0.

// apiVersions answers with the table.
func (c *call) apiVersions() {
	req := c.req.(*kmsg.ApiVersionsRequest)
	resp := req.ResponseKind().(*kmsg.ApiVersionsResponse)
	if c.version >= 3 && (!isSoftwareName(req.ClientSoftwareName) || !isSoftwareName(req.ClientSoftwareVersion)) {
		resp.ErrorCode = codeInvalidRequest // KIP-511
		c.respond(resp)
		return
	}
	resp.ApiKeys = c.server.table.versions()
	c.respond(resp)
}

// unsupportedVersion answers a version that is not served: in the format of v0, which every client can read, with the versions that are (KIP-511).
func (c *call) unsupportedVersion() {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = codeUnsupportedVersion
	resp.ApiKeys = c.server.table.versions()
	c.version = 0
	c.respond(resp)
}

// isSoftwareName reports whether s is a name or version of client software: [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?
func isSoftwareName(s string) bool {
	isAlnum := func(b byte) bool { return '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' }
	for i := range len(s) {
		if !isAlnum(s[i]) && (i == 0 || i == len(s)-1 || s[i] != '-' && s[i] != '.') {
			return false
		}
	}
	return s != ""
}
