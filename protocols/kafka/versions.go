package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// api is one request that is served, in all its versions from minVersion to maxVersion. The handler runs on the goroutine that reads the connection, request
// after request, and blocks no longer than it takes to get a place in the order of the log; what waits longer goes on elsewhere and answers from there.
type api struct {
	key, minVersion, maxVersion int16
	handler                     func(*call)
}

// apis is all that is served. The answer to ApiVersions is this table.
func apis() []api {
	return slices.Concat([]api{
		{0, 0, 13, (*call).produce},
		{1, 4, 18, (*call).fetch},
		{2, 1, 11, (*call).listOffsets},
		{3, 0, 13, (*call).metadata},
		{18, 0, 4, (*call).apiVersions},
		{19, 0, 7, (*call).createTopics},
		{20, 0, 6, (*call).deleteTopics},
		{22, 0, 5, (*call).initProducerID},
		{23, 0, 4, (*call).offsetForLeaderEpoch},
		{32, 0, 4, (*call).describeConfigs},
	}, groupAPIs())
}

// apiTable finds an api by its key.
type apiTable struct {
	list  []api
	byKey []*api // index is the key; nil: not served
}

func newAPITable(list []api) *apiTable {
	slices.SortFunc(list, func(a, b api) int { return int(a.key) - int(b.key) })
	t := &apiTable{list: list, byKey: make([]*api, list[len(list)-1].key+1)}
	for i := range list {
		t.byKey[list[i].key] = &list[i]
	}
	return t
}

// find returns the api with the key, nil if it is not served.
func (t *apiTable) find(key int16) *api {
	if key < 0 || int(key) >= len(t.byKey) {
		return nil
	}
	return t.byKey[key]
}

// versions is the table as ApiVersions tells it.
func (t *apiTable) versions() []kmsg.ApiVersionsResponseApiKey {
	keys := make([]kmsg.ApiVersionsResponseApiKey, len(t.list))
	for i, a := range t.list {
		keys[i] = kmsg.ApiVersionsResponseApiKey{ApiKey: a.key, MinVersion: a.minVersion, MaxVersion: a.maxVersion}
	}
	return keys
}
