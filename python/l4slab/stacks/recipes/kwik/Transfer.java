import java.io.FileInputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.URI;
import java.nio.ByteBuffer;
import java.util.Locale;

import tech.kwik.core.QuicClientConnection;
import tech.kwik.core.QuicConnection;
import tech.kwik.core.QuicStream;
import tech.kwik.core.log.NullLogger;
import tech.kwik.core.server.ApplicationProtocolConnection;
import tech.kwik.core.server.ApplicationProtocolConnectionFactory;
import tech.kwik.core.server.ServerConnectionConfig;
import tech.kwik.core.server.ServerConnector;

/** A transfer over QUIC with kwik: `server CERTIFICATE KEY`, `client ADDRESS BYTES`. */
public class Transfer {
    static final int PORT = 4433;
    static final String PROTOCOL = "transfer";
    static final long WINDOW = 1L << 26; // which never limits here

    public static void main(String[] words) throws Exception {
        if (words.length == 3 && words[0].equals("server")) {
            server(words[1], words[2]);
        } else if (words.length == 3 && words[0].equals("client")) {
            client(words[1], Long.parseLong(words[2]));
            System.exit(0);
        } else {
            System.err.println("usage: Transfer server CERTIFICATE KEY | client ADDRESS BYTES");
            System.exit(2);
        }
    }

    /** Takes what comes on each stream and answers how much it was. */
    static void server(String certificate, String key) throws Exception {
        ServerConnectionConfig config = ServerConnectionConfig.builder()
                .maxOpenPeerInitiatedBidirectionalStreams(10)
                .maxConnectionBufferSize(WINDOW)
                .maxBidirectionalStreamBufferSize(WINDOW)
                .build();
        ServerConnector connector = ServerConnector.builder()
                .withPort(PORT)
                .withCertificate(new FileInputStream(certificate), new FileInputStream(key))
                .withConfiguration(config)
                .withLogger(new NullLogger())
                .build();
        connector.registerApplicationProtocol(PROTOCOL, new ApplicationProtocolConnectionFactory() {
            @Override
            public ApplicationProtocolConnection createConnection(String protocol, QuicConnection connection) {
                return new ApplicationProtocolConnection() {
                    @Override
                    public void acceptPeerInitiatedStream(QuicStream stream) {
                        new Thread(() -> count(stream)).start();
                    }
                };
            }

            @Override
            public int maxConcurrentPeerInitiatedBidirectionalStreams() {
                return 10;
            }
        });
        connector.start();
        Thread.sleep(Long.MAX_VALUE);
    }

    static void count(QuicStream stream) {
        try (InputStream in = stream.getInputStream(); OutputStream out = stream.getOutputStream()) {
            byte[] buffer = new byte[1 << 16];
            long came = 0;
            for (int n; (n = in.read(buffer)) >= 0; ) {
                came += n;
            }
            out.write(ByteBuffer.allocate(8).putLong(came).array());
            System.out.println(came + " bytes came");
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    /** Sends so many bytes, and waits until the other end has them. */
    static void client(String address, long size) throws Exception {
        long begun = System.nanoTime();
        QuicClientConnection connection = QuicClientConnection.newBuilder()
                .uri(URI.create(PROTOCOL + "://" + address + ":" + PORT))
                .applicationProtocol(PROTOCOL)
                .noServerCertificateCheck()
                .logger(new NullLogger())
                .build();
        connection.connect();
        long ready = System.nanoTime();
        QuicStream stream = connection.createStream(true);
        OutputStream out = stream.getOutputStream();
        // Now and then kwik forgets to send after a write, until the next one. It never sends again if that one has to wait,
        // for lack of room among 50 KiB: no risk where a piece is small.
        byte[] zeros = new byte[1 << 11];
        for (long left = size; left > 0; ) {
            int now = (int) Math.min(left, zeros.length);
            out.write(zeros, 0, now);
            left -= now;
        }
        out.close();
        long came = ByteBuffer.wrap(stream.getInputStream().readNBytes(8)).getLong();
        if (came != size) {
            throw new IllegalStateException(came + " of " + size + " bytes came");
        }
        System.out.printf(Locale.ROOT, "{\"handshake_s\": %.6f, \"transfer_s\": %.6f, \"bytes\": %d}%n",
                (ready - begun) * 1e-9, (System.nanoTime() - begun) * 1e-9, size);
        connection.close();
    }
}
