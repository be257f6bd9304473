// SPDX-FileCopyrightText: The livecpm authors
// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"github.com/gardener/gardener/pkg/provider-local/controller/dnsrecord"
	"github.com/go-logr/logr"
	"github.com/miekg/dns"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/livecpm/livecpm/test/patience"
	"github.com/livecpm/livecpm/test/standins/dns/server"
)

const (
	apiName = "api.live.demo.shoots.livecpm.example."
	zone    = "livecpm.example."
)

var _ = Describe("Server", func() {
	var (
		opts    server.Options
		clock   *clocktesting.FakePassiveClock
		address string
		stop    func()
	)

	// serve starts a server on one port for UDP and TCP.
	serve := func() {
		GinkgoHelper()
		handler, err := server.New(opts)
		Expect(err).NotTo(HaveOccurred())
		var (
			packets     net.PacketConn
			connections net.Listener
		)
		for connections == nil { // a port that is free for the one may be taken for the other
			packets, err = net.ListenPacket("udp", "127.0.0.1:0")
			Expect(err).NotTo(HaveOccurred())
			address = packets.LocalAddr().String()
			if connections, err = net.Listen("tcp", address); err != nil {
				Expect(packets.Close()).To(Succeed())
			}
		}
		started := make(chan struct{}, 2)
		notify := func() { started <- struct{}{} }
		servers := []*dns.Server{
			{PacketConn: packets, Handler: handler, MsgAcceptFunc: server.Accept, NotifyStartedFunc: notify},
			{Listener: connections, Handler: handler, MsgAcceptFunc: server.Accept, NotifyStartedFunc: notify},
		}
		for _, s := range servers {
			go func() { defer GinkgoRecover(); Expect(s.ActivateAndServe()).To(Succeed()) }()
		}
		for range servers {
			<-started
		}
		stopped := false
		stop = func() {
			if stopped {
				return
			}
			stopped = true
			for _, s := range servers {
				Expect(s.Shutdown()).To(Succeed())
			}
			Expect(handler.Close()).To(Succeed())
		}
	}

	BeforeEach(func() {
		clock = clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC))
		folder := GinkgoT().TempDir()
		opts = server.Options{
			Zones: []string{"livecpm.example", "local.gardener.cloud"}, Address: netip.MustParseAddr("10.250.0.10"),
			StateFile: filepath.Join(folder, "state.json"), ChangeLog: filepath.Join(folder, "changes.jsonl"),
			Clock: clock, Log: logr.Discard(),
		}
		serve()
		DeferCleanup(func() { stop() })
	})

	exchange := func(m *dns.Msg, network string) *dns.Msg {
		GinkgoHelper()
		response, _, err := (&dns.Client{Net: network, Timeout: patience.Eventually}).Exchange(m, address)
		Expect(err).NotTo(HaveOccurred())
		return response
	}
	query := func(name string, rrtype uint16) *dns.Msg {
		GinkgoHelper()
		return exchange(new(dns.Msg).SetQuestion(dns.Fqdn(name), rrtype), "udp")
	}
	// data returns the answers as text, without their headers.
	data := func(m *dns.Msg) []string {
		lines := []string{}
		for _, rr := range m.Answer {
			lines = append(lines, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		return lines
	}
	rr := func(format string, args ...any) dns.RR {
		GinkgoHelper()
		record, err := dns.NewRR(fmt.Sprintf(format, args...))
		Expect(err).NotTo(HaveOccurred())
		return record
	}
	update := func(build func(*dns.Msg)) int {
		GinkgoHelper()
		m := new(dns.Msg).SetUpdate(zone)
		build(m)
		return exchange(m, "udp").Rcode
	}
	insert := func(records ...string) {
		GinkgoHelper()
		Expect(update(func(m *dns.Msg) {
			for _, record := range records {
				m.Insert([]dns.RR{rr("%s", record)})
			}
		})).To(Equal(dns.RcodeSuccess))
	}
	changes := func() []server.Change {
		GinkgoHelper()
		content, err := os.ReadFile(opts.ChangeLog)
		Expect(err).NotTo(HaveOccurred())
		list := []server.Change{}
		for line := range strings.Lines(string(content)) {
			var change server.Change
			Expect(json.Unmarshal([]byte(line), &change)).To(Succeed())
			list = append(list, change)
		}
		return list
	}

	Describe("queries", func() {
		It("should answer for the zones themselves", func() {
			soa := query(zone, dns.TypeSOA)
			Expect(soa.Authoritative).To(BeTrue())
			Expect(soa.Answer).To(ConsistOf(HaveField("Ns", "ns."+zone)))
			Expect(data(query(zone, dns.TypeNS))).To(ConsistOf("ns." + zone))
			Expect(data(query("ns.local.gardener.cloud", dns.TypeA))).To(ConsistOf("10.250.0.10"))
		})

		It("should give the SOA with a name that does not exist, so that clients find the zone", func() {
			response := query(apiName, dns.TypeA)
			Expect(response.Rcode).To(Equal(dns.RcodeNameError))
			Expect(response.Ns).To(ConsistOf(HaveField("Hdr.Name", zone)))
		})

		It("should tell a missing type from a missing name", func() {
			insert(apiName + " 120 IN A 10.250.0.21")
			Expect(query(apiName, dns.TypeAAAA)).
				To(And(HaveField("Rcode", dns.RcodeSuccess), HaveField("Answer", BeEmpty())))
			Expect(query("live.demo.shoots.livecpm.example", dns.TypeA).Rcode).To(Equal(dns.RcodeSuccess),
				"a name with others below exists")
			Expect(query("other.example", dns.TypeA).Rcode).To(Equal(dns.RcodeNameError))
		})

		It("should ignore case and serve TCP", func() {
			insert(apiName + " 120 IN A 10.250.0.21")
			response := exchange(new(dns.Msg).SetQuestion("API.Live.demo.shoots.LIVECPM.example.", dns.TypeA), "tcp")
			Expect(data(response)).To(ConsistOf("10.250.0.21"))
		})

		It("should cap the TTL", func() {
			insert(apiName + " 120 IN A 10.250.0.21")
			Expect(query(apiName, dns.TypeA).Answer[0].Header().Ttl).To(Equal(uint32(120)))
			stop()
			opts.TTLCap = 5 * time.Second
			serve()
			Expect(query(apiName, dns.TypeA).Answer[0].Header().Ttl).To(Equal(uint32(5)))
		})

		It("should use wildcards below the closest existing name only", func() {
			insert("*.ingress.seed-a.livecpm.example. 60 IN A 10.250.0.21",
				"etcd-main-0--ns.ingress.seed-a.livecpm.example. 60 IN A 10.250.0.22",
				"x.sub.ingress.seed-a.livecpm.example. 60 IN A 10.250.0.23")
			Expect(data(query("any.ingress.seed-a.livecpm.example", dns.TypeA))).To(ConsistOf("10.250.0.21"))
			Expect(data(query("a.b.ingress.seed-a.livecpm.example", dns.TypeA))).To(ConsistOf("10.250.0.21"))
			Expect(data(query("etcd-main-0--ns.ingress.seed-a.livecpm.example", dns.TypeA))).
				To(ConsistOf("10.250.0.22"))
			Expect(query("y.sub.ingress.seed-a.livecpm.example", dns.TypeA).Rcode).To(Equal(dns.RcodeNameError))
			Expect(query("any.ingress.seed-a.livecpm.example", dns.TypeAAAA)).
				To(And(HaveField("Rcode", dns.RcodeSuccess), HaveField("Answer", BeEmpty())))
		})

		It("should follow aliases and end with those that do not end", func() {
			insert(apiName+" 60 IN CNAME lb.livecpm.example.", "lb.livecpm.example. 60 IN A 10.250.0.21",
				"loop.livecpm.example. 60 IN CNAME loop.livecpm.example.")
			Expect(data(query(apiName, dns.TypeA))).To(Equal([]string{"lb.livecpm.example.", "10.250.0.21"}))
			Expect(data(query(apiName, dns.TypeCNAME))).To(Equal([]string{"lb.livecpm.example."}))
			Expect(query("loop.livecpm.example", dns.TypeA).Rcode).To(Equal(dns.RcodeServerFailure))
		})

		It("should truncate what does not fit and have it fetched over TCP", func() {
			var records []string
			for i := range 100 {
				records = append(records, fmt.Sprintf("%s 60 IN A 10.0.0.%d", apiName, i))
			}
			m := new(dns.Msg).SetUpdate(zone)
			for _, record := range records {
				m.Insert([]dns.RR{rr("%s", record)})
			}
			Expect(exchange(m, "tcp").Rcode).To(Equal(dns.RcodeSuccess))
			Expect(query(apiName, dns.TypeA).Truncated).To(BeTrue())
			Expect(exchange(new(dns.Msg).SetQuestion(apiName, dns.TypeA), "tcp").Answer).To(HaveLen(100))
		})
	})

	Describe("updates of upstream's local provider", func() {
		var (
			actuator *dnsrecord.Actuator
			record   *extensionsv1alpha1.DNSRecord
		)

		BeforeEach(func() {
			actuator = &dnsrecord.Actuator{DNSClient: redirect{&address}}
			record = &extensionsv1alpha1.DNSRecord{Spec: extensionsv1alpha1.DNSRecordSpec{
				Name: strings.TrimSuffix(apiName, "."), RecordType: extensionsv1alpha1.DNSRecordTypeA,
				Values: []string{"10.250.0.21"}, TTL: ptr.To[int64](30),
			}}
		})

		It("should switch a record without a moment without it, and log what happened", func(ctx SpecContext) {
			Expect(actuator.Reconcile(ctx, logr.Discard(), record, nil)).To(Succeed())
			Expect(data(query(apiName, dns.TypeA))).To(ConsistOf("10.250.0.21"))
			Expect(actuator.Reconcile(ctx, logr.Discard(), record, nil)).To(Succeed(), "nothing changes")

			clock.SetTime(clock.Now().Add(time.Minute))
			record.Spec.Values = []string{"10.250.0.22"}
			Expect(actuator.Restore(ctx, logr.Discard(), record, nil)).To(Succeed())
			Expect(data(query(apiName, dns.TypeA))).To(ConsistOf("10.250.0.22"))

			Expect(actuator.Delete(ctx, logr.Discard(), record, nil)).To(Succeed())
			Expect(query(apiName, dns.TypeA).Rcode).To(Equal(dns.RcodeNameError))

			at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
			Expect(changes()).To(Equal([]server.Change{
				{Time: at, Name: apiName, Type: "A", Old: []string{}, New: []string{"10.250.0.21"}, TTL: 30},
				{Time: at.Add(time.Minute), Name: apiName, Type: "A", Old: []string{"10.250.0.21"},
					New: []string{"10.250.0.22"}, TTL: 30},
				{Time: at.Add(time.Minute), Name: apiName, Type: "A", Old: []string{"10.250.0.22"}, New: []string{},
					TTL: 30},
			}))
		})
	})

	Describe("updates", func() {
		It("should replace, add and delete single records and names", func() {
			insert(apiName+" 60 IN A 10.0.0.1", apiName+" 30 IN A 10.0.0.2", apiName+" 30 IN A 10.0.0.2",
				apiName+" 60 IN TXT \"note\"")
			response := query(apiName, dns.TypeA)
			Expect(data(response)).To(ConsistOf("10.0.0.1", "10.0.0.2"))
			Expect(response.Answer).To(HaveEach(HaveField("Hdr.Ttl", uint32(30))), "a set has one TTL, the newest")

			Expect(update(func(m *dns.Msg) { m.Remove([]dns.RR{rr("%s 0 IN A 10.0.0.1", apiName)}) })).
				To(Equal(dns.RcodeSuccess))
			Expect(data(query(apiName, dns.TypeA))).To(ConsistOf("10.0.0.2"))
			Expect(update(func(m *dns.Msg) { m.RemoveName([]dns.RR{rr("%s 0 IN A 10.0.0.9", apiName)}) })).
				To(Equal(dns.RcodeSuccess))
			Expect(query(apiName, dns.TypeTXT).Rcode).To(Equal(dns.RcodeNameError))
		})

		It("should not put a CNAME beside other records", func() {
			insert(apiName+" 60 IN A 10.0.0.1", apiName+" 60 IN CNAME lb.livecpm.example.")
			Expect(data(query(apiName, dns.TypeA))).To(ConsistOf("10.0.0.1"))
		})

		It("should apply all of a message or nothing", func() {
			Expect(update(func(m *dns.Msg) {
				m.Insert([]dns.RR{rr("%s 60 IN A 10.0.0.1", apiName), rr("elsewhere.example. 60 IN A 10.0.0.1")})
			})).To(Equal(dns.RcodeNotZone))
			Expect(query(apiName, dns.TypeA).Rcode).To(Equal(dns.RcodeNameError))
		})

		It("should check prerequisites", func() {
			record := rr("%s 60 IN A 10.0.0.1", apiName)
			other := rr("%s 60 IN A 10.0.0.2", apiName)
			check := func(build func(*dns.Msg)) int {
				return update(func(m *dns.Msg) {
					build(m)
					m.Insert([]dns.RR{rr("probe.livecpm.example. 1 IN A 10.0.0.9")})
				})
			}
			Expect(check(func(m *dns.Msg) { m.NameUsed([]dns.RR{record}) })).To(Equal(dns.RcodeNameError))
			Expect(check(func(m *dns.Msg) { m.RRsetUsed([]dns.RR{record}) })).To(Equal(dns.RcodeNXRrset))
			Expect(query("probe.livecpm.example", dns.TypeA).Rcode).To(Equal(dns.RcodeNameError))
			insert(record.String())
			Expect(check(func(m *dns.Msg) { m.NameNotUsed([]dns.RR{record}) })).To(Equal(dns.RcodeYXDomain))
			Expect(check(func(m *dns.Msg) { m.RRsetNotUsed([]dns.RR{record}) })).To(Equal(dns.RcodeYXRrset))
			Expect(check(func(m *dns.Msg) { m.Used([]dns.RR{other}) })).To(Equal(dns.RcodeNXRrset))
			Expect(check(func(m *dns.Msg) { m.Used([]dns.RR{record}) })).To(Equal(dns.RcodeSuccess))
		})

		It("should refuse foreign zones, its own records and other operations", func() {
			foreign := new(dns.Msg).SetUpdate("other.example.")
			foreign.Insert([]dns.RR{rr("a.other.example. 60 IN A 10.0.0.1")})
			Expect(exchange(foreign, "udp").Rcode).To(Equal(dns.RcodeNotAuth))
			Expect(update(func(m *dns.Msg) { m.Insert([]dns.RR{rr("ns.%s 60 IN A 10.0.0.1", zone)}) })).
				To(Equal(dns.RcodeRefused))
			notify := new(dns.Msg).SetNotify(zone)
			Expect(exchange(notify, "udp").Rcode).To(Equal(dns.RcodeNotImplemented))
		})
	})

	Describe("manners of providers", func() {
		const balancer = "seed-a.lb.livecpm.example."

		// ask asks the replica of the number; it returns nil if there is no answer.
		ask := func(handler dns.Handler, m *dns.Msg) *dns.Msg {
			w := &recorder{}
			handler.ServeDNS(w, m)
			return w.response
		}

		It("should answer for an alias with addresses, and know no CNAME", func() {
			stop()
			opts.Aliases, opts.Hosts = true, map[string]netip.Addr{balancer: netip.MustParseAddr("10.250.0.21")}
			serve()
			insert(apiName+" 120 IN CNAME "+balancer, "far.livecpm.example. 120 IN CNAME elsewhere.example.",
				"none.livecpm.example. 120 IN CNAME missing.livecpm.example.")

			addresses := query(apiName, dns.TypeA)
			Expect(data(addresses)).To(Equal([]string{"10.250.0.21"}))
			Expect(addresses.Answer).To(HaveEach(HaveField("Hdr", And(HaveField("Name", apiName),
				HaveField("Ttl", uint32(60))))), "the TTL is the load balancer's")
			for _, empty := range []*dns.Msg{query(apiName, dns.TypeCNAME), query(apiName, dns.TypeAAAA),
				query("none.livecpm.example", dns.TypeA)} {
				Expect(empty.Rcode).To(Equal(dns.RcodeSuccess))
				Expect(empty.Answer).To(BeEmpty())
			}
			Expect(data(query("far.livecpm.example", dns.TypeA))).To(Equal([]string{"elsewhere.example."}),
				"a provider has no aliases to what it does not serve")
			Expect(update(func(m *dns.Msg) { m.Insert([]dns.RR{rr("%s 60 IN A 10.0.0.1", balancer)}) })).
				To(Equal(dns.RcodeRefused))
		})

		It("should let replicas take up changes later, each at its own time", func() {
			opts.StateFile, opts.ChangeLog = "", ""
			opts.Replicas = []server.Replica{
				{Address: netip.MustParseAddr("10.250.0.53"), Lag: time.Minute},
				{Address: netip.MustParseAddr("10.250.0.54"), Lag: 3 * time.Minute},
			}
			s, err := server.New(opts)
			Expect(err).NotTo(HaveOccurred())
			set := func(address string) {
				m := new(dns.Msg).SetUpdate(zone)
				m.RemoveRRset([]dns.RR{rr("%s 60 IN A 10.0.0.0", apiName)})
				m.Insert([]dns.RR{rr("%s 60 IN A %s", apiName, address)})
				Expect(ask(s, m).Rcode).To(Equal(dns.RcodeSuccess))
			}
			answers := func() []string {
				var all []string
				for _, handler := range []dns.Handler{s, s.ReplicaHandler(0), s.ReplicaHandler(1)} {
					all = append(all, strings.Join(
						data(ask(handler, new(dns.Msg).SetQuestion(apiName, dns.TypeA))), " "))
				}
				return all
			}
			Expect(data(ask(s, new(dns.Msg).SetQuestion(zone, dns.TypeNS)))).
				To(Equal([]string{"ns." + zone, "ns2." + zone, "ns3." + zone}))
			Expect(data(ask(s, new(dns.Msg).SetQuestion("ns3."+zone, dns.TypeA)))).To(Equal([]string{"10.250.0.54"}))

			set("10.0.0.1")
			Expect(answers()).To(Equal([]string{"10.0.0.1", "", ""}))
			clock.SetTime(clock.Now().Add(2 * time.Minute))
			set("10.0.0.2")
			Expect(answers()).To(Equal([]string{"10.0.0.2", "10.0.0.1", ""}))
			clock.SetTime(clock.Now().Add(time.Minute))
			Expect(answers()).To(Equal([]string{"10.0.0.2", "10.0.0.2", "10.0.0.1"}))
			clock.SetTime(clock.Now().Add(2 * time.Minute))
			set("10.0.0.3")
			Expect(answers()).To(Equal([]string{"10.0.0.3", "10.0.0.2", "10.0.0.2"}))

			refused := new(dns.Msg).SetUpdate(zone)
			refused.Insert([]dns.RR{rr("%s 60 IN A 10.0.0.9", apiName)})
			Expect(ask(s.ReplicaHandler(0), refused).Rcode).To(Equal(dns.RcodeRefused))
		})

		It("should not answer for a while after a change", func() {
			opts.StateFile, opts.ChangeLog = "", ""
			opts.Replicas = []server.Replica{
				{Address: netip.MustParseAddr("10.250.0.53"), Silence: time.Minute}}
			s, err := server.New(opts)
			Expect(err).NotTo(HaveOccurred())
			question := new(dns.Msg).SetQuestion(apiName, dns.TypeA)
			Expect(ask(s.ReplicaHandler(0), question)).NotTo(BeNil(), "before the first change")
			m := new(dns.Msg).SetUpdate(zone)
			m.Insert([]dns.RR{rr("%s 60 IN A 10.0.0.1", apiName)})
			Expect(ask(s, m).Rcode).To(Equal(dns.RcodeSuccess))
			Expect(ask(s.ReplicaHandler(0), question)).To(BeNil())
			clock.SetTime(clock.Now().Add(time.Minute))
			Expect(data(ask(s.ReplicaHandler(0), question))).To(Equal([]string{"10.0.0.1"}))
		})
	})

	Describe("persistence", func() {
		It("should have its records again after a restart, and continue with the log", func() {
			insert(apiName + " 120 IN A 10.250.0.21")
			serial := query(zone, dns.TypeSOA).Answer[0].(*dns.SOA).Serial
			stop()
			serve()
			Expect(data(query(apiName, dns.TypeA))).To(ConsistOf("10.250.0.21"))
			Expect(query(zone, dns.TypeSOA).Answer[0].(*dns.SOA).Serial).To(Equal(serial))
			insert(apiName + " 120 IN A 10.250.0.22")
			Expect(changes()).To(HaveLen(2))
			Expect(query(zone, dns.TypeSOA).Answer[0].(*dns.SOA).Serial).To(Equal(serial + 1))
		})

		It("should leave no temporary files", func() {
			insert(apiName + " 120 IN A 10.250.0.21")
			entries, err := os.ReadDir(filepath.Dir(opts.StateFile))
			Expect(err).NotTo(HaveOccurred())
			Expect(entries).To(HaveLen(2))
		})

		It("should change nothing when the state cannot be kept", func() {
			stop()
			opts.StateFile = filepath.Join(GinkgoT().TempDir(), "missing", "state.json")
			serve()
			Expect(update(func(m *dns.Msg) { m.Insert([]dns.RR{rr("%s 60 IN A 10.0.0.1", apiName)}) })).
				To(Equal(dns.RcodeServerFailure))
			Expect(query(apiName, dns.TypeA).Rcode).To(Equal(dns.RcodeNameError))
		})

		It("should not start with a state file that it cannot read", func() {
			Expect(os.WriteFile(opts.StateFile, []byte("{"), 0o600)).To(Succeed())
			_, err := server.New(opts)
			Expect(err).To(MatchError(ContainSubstring("failed to load state file")))
		})
	})

	DescribeTable("#New should refuse", func(change func(*server.Options)) {
		change(&opts)
		_, err := server.New(opts)
		Expect(err).To(HaveOccurred())
	},
		Entry("no zones", func(o *server.Options) { o.Zones = nil }),
		Entry("a zone that is none", func(o *server.Options) { o.Zones = []string{"a..b"} }),
		Entry("no address", func(o *server.Options) { o.Address = netip.Addr{} }),
		Entry("a replica without an address", func(o *server.Options) { o.Replicas = make([]server.Replica, 1) }),
	)
})

// redirect sends to the server under test what the provider sends to its hard-coded address.
type redirect struct{ address *string }

func (r redirect) Exchange(m *dns.Msg, _ string) (*dns.Msg, time.Duration, error) {
	return (&dns.Client{Timeout: patience.Eventually}).Exchange(m, *r.address)
}

// recorder keeps what a handler answers.
type recorder struct {
	dns.ResponseWriter
	response *dns.Msg
}

func (r *recorder) WriteMsg(m *dns.Msg) error {
	r.response = m
	return nil
}

func (*recorder) RemoteAddr() net.Addr { return &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)} }
