console.log(`good-bye, ${process.env.STATE_seen}`);
