//! A connection, encrypted or not, whose first message is judged before the client reads it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::either::Either;

use crate::auth::{HEAD_BYTES, RequireAuth, Verdict};

/// The transport of a connection.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Transport for S {}

/// A transport, encrypted.
pub(crate) type Encrypted<S> = <MakeRustlsConnect as MakeTlsConnect<S>>::Stream;

/// A connection whose first message is judged.
pub(crate) struct AuthStream<S: Transport> {
    inner: Either<S, Encrypted<S>>,
    state: State,
}

enum State {
    /// The first message has not come, or not enough of it.
    Waiting(RequireAuth, Head),
    /// The message may be read. These bytes have come, and so many of them were handed over.
    Held(Head, usize),
    /// Everything may be read.
    Open,
    /// Nothing may be read any more.
    Refused,
}

/// The first bytes that came.
#[derive(Clone, Copy, Default)]
struct Head {
    bytes: [u8; HEAD_BYTES],
    len: usize,
}

impl<S: Transport> AuthStream<S> {
    /// Without a rule, everything may be read.
    pub(crate) fn new(inner: Either<S, Encrypted<S>>, rule: Option<RequireAuth>) -> Self {
        let state = rule.map_or(State::Open, |rule| State::Waiting(rule, Head::default()));
        Self { inner, state }
    }
}

impl State {
    /// Reads through `source`, but hands nothing over before the first message is judged.
    fn poll_judged<R: AsyncRead + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        source: &mut R,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            match self {
                Self::Waiting(rule, head) => {
                    let mut room = ReadBuf::new(&mut head.bytes[head.len..]);
                    ready!(Pin::new(&mut *source).poll_read(context, &mut room))?;
                    let came = room.filled().len();
                    head.len += came;
                    let verdict = match came {
                        // The end of the connection, which comes after the bytes that are held.
                        0 => Verdict::Allowed,
                        _ => rule.judge(&head.bytes[..head.len]),
                    };
                    match verdict {
                        Verdict::More => {}
                        Verdict::Allowed => *self = Self::Held(*head, 0),
                        Verdict::Refused(error) => {
                            *self = Self::Refused;
                            return Poll::Ready(Err(error));
                        }
                    }
                }
                Self::Held(head, given) => {
                    let left = &head.bytes[*given..head.len];
                    if left.is_empty() {
                        *self = Self::Open;
                        continue;
                    }
                    let n = left.len().min(into.remaining());
                    into.put_slice(&left[..n]);
                    *given += n;
                    return Poll::Ready(Ok(()));
                }
                Self::Open => return Pin::new(source).poll_read(context, into),
                Self::Refused => return Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
            }
        }
    }
}

impl<S: Transport> AsyncRead for AuthStream<S> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { inner, state } = self.get_mut();
        state.poll_judged(context, inner, into)
    }
}

impl<S: Transport> AsyncWrite for AuthStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

impl<S: Transport> TlsStream for AuthStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        match &self.inner {
            Either::Left(_) => ChannelBinding::none(),
            Either::Right(encrypted) => encrypted.channel_binding(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    /// Returns what a client reads when a server sends some pieces and then ends.
    async fn read(value: &str, pieces: &[&[u8]]) -> io::Result<Vec<u8>> {
        let rule = RequireAuth::parse(value).expect("it is a rule");
        let (mut server, client) = duplex(HEAD_BYTES * 100);
        let mut client = AuthStream::new(Either::Left(client), rule);
        let mut came = Vec::new();
        let reading = async {
            // Fewer bytes at once than a head has.
            let mut some = [0; 4];
            loop {
                match client.read(&mut some).await? {
                    0 => return Ok(()),
                    n => came.extend(&some[..n]),
                }
            }
        };
        let sending = async {
            for piece in pieces {
                server.write_all(piece).await.expect("there is room");
                tokio::task::yield_now().await;
            }
            drop(server);
        };
        let (read, ()): (io::Result<()>, ()) = tokio::join!(reading, sending);
        match read {
            Ok(()) => Ok(came),
            Err(error) => {
                assert!(came.is_empty(), "nothing was handed over");
                let again = client.read_u8().await.expect_err("it stays refused");
                assert_eq!(again.kind(), io::ErrorKind::NotConnected);
                Err(error)
            }
        }
    }

    /// A request for SASL with its mechanisms, and another message right after it.
    const SCRAM: &[u8] = b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0Z\0\0\0\x05I";
    const OK: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

    #[tokio::test]
    async fn an_allowed_message_arrives_unchanged() {
        assert_eq!(read("scram-sha-256", &[SCRAM]).await.expect("it is allowed"), SCRAM);
        let bytes: Vec<&[u8]> = SCRAM.chunks(1).collect();
        assert_eq!(read("scram-sha-256", &bytes).await.expect("it is allowed"), SCRAM);
        assert_eq!(read("none", &[OK]).await.expect("it is allowed"), OK);
        assert_eq!(read("", &[b"anything"]).await.expect("it is not judged"), b"anything");
        let refusal = b"E\0\0\0\x09CXX\0\0";
        assert_eq!(read("none", &[refusal]).await.expect("an error is read"), refusal);
    }

    #[tokio::test]
    async fn a_refused_message_is_never_handed_over() {
        for pieces in [vec![OK], OK.chunks(1).collect(), OK.chunks(8).collect()] {
            let error = read("scram-sha-256", &pieces).await.expect_err("it is refused");
            assert!(error.to_string().contains("asks for no authentication"), "{error}");
        }
        // Only the first message is judged, regardless of the messages after it.
        let both = [b"N\0\0\0\x05\0", SCRAM].concat();
        assert!(read("scram-sha-256", &[&both]).await.is_err());
    }

    #[tokio::test]
    async fn an_early_end_is_an_end() {
        assert_eq!(read("scram-sha-256", &[]).await.expect("it ends"), b"");
        assert_eq!(
            read("scram-sha-256", &[&SCRAM[..7]]).await.expect("it ends"),
            &SCRAM[..7]
        );
    }
}
