// A scenario for CableLabs' docsis-ns3, built and run by docsis_ns3.py: TCP or UDP through one modem, in one direction.
// Prints one line: Mbit/s of payload and mean delay in ms of C, the same of L, packets of L that queue protection sent to C
// per packet of L, and the mean drop probability of C and coupled probability of L.
#include "ns3/applications-module.h"
#include "ns3/bridge-module.h"
#include "ns3/cm-net-device.h"
#include "ns3/cmts-net-device.h"
#include "ns3/cmts-upstream-scheduler.h"
#include "ns3/core-module.h"
#include "ns3/docsis-helper.h"
#include "ns3/dual-queue-coupled-aqm.h"
#include "ns3/flow-monitor-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/queue-protection.h"

#include <iostream>

using namespace ns3;
using namespace ns3::docsis;

// Of C and L: sojourns since the warm-up.
static double g_warmup = 20, g_sum[2] = {0, 0}, g_prob[2] = {0, 0};
static uint64_t g_packets[2] = {0, 0}, g_updates = 0, g_sanctioned = 0, g_taken = 0;
static bool is_measured() { return Simulator::Now().GetSeconds() > g_warmup; }
static void left(int queue, Time sojourn)
{
    if (is_measured()) { g_sum[queue] += sojourn.GetSeconds() * 1e3; g_packets[queue]++; }
}
static void left_c(Time sojourn) { left(0, sojourn); }
static void left_l(Time sojourn) { left(1, sojourn); }
template <uint64_t& count> static void protect(Ptr<const QueueDiscItem>, uint32_t, uint32_t, int64_t, int64_t, int64_t, int64_t, uint16_t)
{
    count += is_measured();
}
static void probe(Ptr<DualQueueCoupledAqm> queue)
{
    if (is_measured()) { g_prob[0] += queue->GetClassicDropProbability(); g_prob[1] += queue->GetProbCL(); g_updates++; }
    Simulator::Schedule(MilliSeconds(5), &probe, queue);
}

int main(int argc, char** argv)
{
    int classic = 1, low = 1, payload = 1000;
    double seconds = 40, side_ms = 4.5, udp_c = 0, udp_l = 0;
    bool is_up = true;
    std::string up = "20Mbps", down = "200Mbps", ggr = "0bps", cc_c = "ns3::TcpCubic", cc_l = "ns3::TcpDctcp";
    uint32_t ggi = 0;
    CommandLine cmd;
    cmd.AddValue("classic", "flows in C", classic);
    cmd.AddValue("low", "flows in L", low);
    cmd.AddValue("seconds", "", seconds);
    cmd.AddValue("warmup", "", g_warmup);
    cmd.AddValue("side", "one-way ms of each of the two sides", side_ms);
    cmd.AddValue("udp_c", "Mbit/s of payload of each flow in place of TCP", udp_c);
    cmd.AddValue("udp_l", "the same in L", udp_l);
    cmd.AddValue("payload", "of UDP, bytes", payload);
    cmd.AddValue("is_up", "upstream", is_up);
    cmd.AddValue("up", "", up);
    cmd.AddValue("down", "", down);
    cmd.AddValue("ggr", "", ggr);
    cmd.AddValue("ggi", "us", ggi);
    cmd.AddValue("cc_c", "", cc_c);
    cmd.AddValue("cc_l", "", cc_l);
    Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(1448));
    Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 23));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    Config::SetDefault("ns3::TcpDctcp::UseEct0", BooleanValue(false));
    Config::SetDefault("ns3::docsis::DocsisNetDevice::MapInterval", TimeValue(MilliSeconds(1)));
    cmd.Parse(argc, argv);

    // Senders and receivers of C and L on the modem's side (0, 1), the modem, the CMTS, and those behind it (4, 5).
    NodeContainer nodes;
    nodes.Create(6);
    DocsisHelper docsis;
    docsis.SetChannelAttribute("Delay", TimeValue(MicroSeconds(40)));
    auto aggregate = [&](const std::string& text) {
        DataRate rate(text);
        auto flow = CreateObject<AggregateServiceFlow>();
        flow->m_maxSustainedRate = rate;
        flow->m_peakRate = DataRate(2 * rate.GetBitRate());
        flow->m_maxTrafficBurst = rate.GetBitRate() * .1 / 8;
        flow->SetClassicServiceFlow(CreateObject<ServiceFlow>(CLASSIC_SFID));
        auto low_latency = CreateObject<ServiceFlow>(LOW_LATENCY_SFID);
        if (DataRate(ggr).GetBitRate())
        {
            low_latency->m_guaranteedGrantRate = DataRate(ggr);
            low_latency->m_guaranteedGrantInterval = ggi;
        }
        flow->SetLowLatencyServiceFlow(low_latency);
        return flow;
    };
    NetDeviceContainer link = docsis.Install(nodes.Get(3), nodes.Get(2), aggregate(up), aggregate(down));
    SimpleNetDeviceHelper simple;
    simple.SetDeviceAttribute("DataRate", DataRateValue(DataRate("10Gbps")));
    simple.SetChannelAttribute("Delay", TimeValue(MicroSeconds(side_ms * 1000)));
    simple.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("100000p"));
    NetDeviceContainer ends, inner[2];
    for (uint32_t i : {0, 1, 4, 5})
    {
        NetDeviceContainer pair = simple.Install(NodeContainer(nodes.Get(i), nodes.Get(i < 2 ? 2 : 3)));
        ends.Add(pair.Get(0));
        inner[i < 2 ? 0 : 1].Add(pair.Get(1));
    }
    InternetStackHelper stack;
    stack.Install(nodes);
    for (uint32_t i : {0, 1, 4, 5})
    {
        nodes.Get(i)->GetObject<TcpL4Protocol>()->SetAttribute(
            "SocketType", TypeIdValue(TypeId::LookupByName(i % 2 ? cc_l : cc_c)));
    }
    BridgeHelper bridge;
    inner[0].Add(link.Get(1));
    inner[1].Add(link.Get(0));
    bridge.Install(nodes.Get(2), inner[0]);
    bridge.Install(nodes.Get(3), inner[1]);
    Ipv4AddressHelper addresses;
    addresses.SetBase("10.1.1.0", "255.255.255.0");
    Ipv4InterfaceContainer at = addresses.Assign(ends);

    std::vector<Ptr<PacketSink>> sinks[2];
    for (int queue = 0; queue < 2; queue++)
    {
        int from = is_up ? queue : 2 + queue, to = is_up ? 2 + queue : queue;
        double udp = queue ? udp_l : udp_c;
        for (int i = 0; i < (queue ? low : classic); i++)
        {
            InetSocketAddress there(at.GetAddress(to), 5000 + i * 2 + queue);
            InetSocketAddress here(Ipv4Address::GetAny(), 5000 + i * 2 + queue);
            const char* protocol = udp > 0 ? "ns3::UdpSocketFactory" : "ns3::TcpSocketFactory";
            PacketSinkHelper sink(protocol, here);
            auto received = sink.Install(nodes.Get(to < 2 ? to : to + 2));
            received.Start(Seconds(0));
            sinks[queue].push_back(DynamicCast<PacketSink>(received.Get(0)));
            ApplicationContainer sent;
            if (udp > 0)
            {
                UdpClientHelper client(there);
                client.SetAttribute("MaxPackets", UintegerValue(4000000000u));
                client.SetAttribute("Interval", TimeValue(NanoSeconds(payload * 8e3 / udp)));
                client.SetAttribute("PacketSize", UintegerValue(payload));
                client.SetAttribute("Tos", UintegerValue(queue));
                sent = client.Install(nodes.Get(from < 2 ? from : from + 2));
            }
            else
            {
                BulkSendHelper bulk("ns3::TcpSocketFactory", there);
                bulk.SetAttribute("SendSize", UintegerValue(1448));
                sent = bulk.Install(nodes.Get(from < 2 ? from : from + 2));
            }
            sent.Start(Seconds(1 + i * .05 + queue * .0237));
        }
    }
    docsis.AssignStreams(link, 0);
    auto modem = docsis.GetUpstream(link);
    auto cmts = docsis.GetDownstream(link);
    auto queue = is_up ? modem->GetQueue() : cmts->GetQueue();
    if (is_up)
    {
        modem->TraceConnectWithoutContext("ClassicSojournTime", MakeCallback(&left_c));
        modem->TraceConnectWithoutContext("LowLatencySojournTime", MakeCallback(&left_l));
    }
    else
    {
        queue->TraceConnectWithoutContext("ClassicSojournTime", MakeCallback(&left_c));
        queue->TraceConnectWithoutContext("LowLatencySojournTime", MakeCallback(&left_l));
    }
    auto protection = queue->GetQueueProtection();
    protection->TraceConnectWithoutContext("Sanction", MakeCallback(&protect<g_sanctioned>));
    protection->TraceConnectWithoutContext("Success", MakeCallback(&protect<g_taken>));
    Simulator::Schedule(Seconds(1), &probe, queue);
    FlowMonitorHelper flows;
    auto monitor = flows.InstallAll();

    // Received bytes, and of UDP the one-way delay.
    double bytes[2][2], delay[2][2], packets[2][2];
    for (int after = 0; after < 2; after++)
    {
        Simulator::Stop(Seconds(after ? seconds - g_warmup : g_warmup));
        Simulator::Run();
        for (int q = 0; q < 2; q++)
        {
            bytes[after][q] = delay[after][q] = packets[after][q] = 0;
            for (auto sink : sinks[q]) { bytes[after][q] += sink->GetTotalRx(); }
        }
        for (const auto& [id, flow] : monitor->GetFlowStats())
        {
            auto tuple = DynamicCast<Ipv4FlowClassifier>(flows.GetClassifier())->FindFlow(id);
            int q = tuple.destinationPort % 2;
            delay[after][q] += flow.delaySum.GetSeconds() * 1e3;
            packets[after][q] += flow.rxPackets;
        }
    }
    std::cout << "[";
    for (int q = 0; q < 2; q++)
    {
        bool is_udp = (q ? udp_l : udp_c) > 0;
        double mean = is_udp ? (delay[1][q] - delay[0][q]) / std::max(1.0, packets[1][q] - packets[0][q]) - 2 * side_ms
                             : g_sum[q] / std::max<uint64_t>(g_packets[q], 1);
        std::cout << (bytes[1][q] - bytes[0][q]) * 8e-6 / (seconds - g_warmup) << ", " << mean << ", ";
    }
    std::cout << double(g_sanctioned) / std::max<uint64_t>(g_sanctioned + g_taken, 1) << ", " << g_prob[0] / g_updates << ", "
              << g_prob[1] / g_updates << "]" << std::endl;
    Simulator::Destroy();
}
